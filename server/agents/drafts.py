"""Drafts of an agent's canvas: how they are checked, drawn and stored. Large ones are checked in a worker process."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import msgspec
import orjson

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import MAX_LISTED_ERRORS, BusyError, CompileError, RequestError, WorkLimitError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.worker_tasks import WorkerTask, worker_task
from ragflow_lg.dsl.compatibility import canvas_of
from ragflow_lg.dsl_compiler import check_canvas, is_old_canvas, upgrade_source, with_components
from ragflow_lg.dsl_compiler.drawing import Direction, Sketch, ThemeName, sketch_source, to_svg
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.settings import Settings

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import VersionRow
    from ragflow_lg.services.workers import Workers


P = ParamSpec("P")
T = TypeVar("T")

SMALL_BYTES = 32 * 1024
"""Size of the canvases that are checked in the event loop, which takes less than a second for any of them."""

CHECK_SECONDS = 15.0

MAX_DIAGNOSTICS = 1_000
"""How many diagnostics of a canvas are returned: the errors first. A canvas can have one for each of its values."""


async def run_on_canvas(workers: Workers, task: WorkerTask[..., T], content: bytes, *arguments: Any) -> T:
    """Run a task on a canvas, in a worker process unless the canvas is small.

    Raises:
        RequestError: if it takes too much time or memory, or if too many of the tenant's tasks are waiting.
    """
    if len(content) <= SMALL_BYTES:
        return task.function(content, *arguments)
    try:
        return await workers.run(task, content, *arguments)
    except WorkLimitError as error:
        if error.is_retryable:
            raise BusyError(str(error)) from None
        raise draft_error(str(error)) from None


async def find_diagnostics(workers: Workers, settings: Settings, content: bytes) -> tuple[bool, list[Diagnostic]]:
    """Return whether a canvas can run, and its diagnostics, at most `MAX_DIAGNOSTICS`.

    Raises:
        RequestError: if checking takes too much time or memory.
    """
    can_run, rows = await run_on_canvas(workers, check_in_worker, content, without_secrets(settings))
    return can_run, [Diagnostic(*row) for row in rows]


def without_position(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic of a stored canvas for a client, which has sent an object or another text."""
    return diagnostic._replace(line=0, column=0)


def without_secrets(settings: Settings) -> Settings:
    """Return only the settings that affect how a canvas is compiled; workers get no secrets."""
    servers = {id_: each.model_construct(allow=each.allow) for id_, each in settings.tool_servers.items()}
    return Settings.model_construct(
        agents=settings.agents, mcp=servers, compat=settings.compat, canvases=settings.canvases, limits=settings.limits
    ).for_model(settings.override_model)


def _deployment(settings: Settings, *, asks_servers: bool = True) -> CanvasFiles:
    return CanvasFiles(lambda: settings, asks_servers=asks_servers, limits=settings.limits.canvas)


@worker_task("Checking the canvas", seconds=CHECK_SECONDS, small_size=0)
def check_in_worker(content: bytes, settings: Settings) -> list[Any]:
    """Return whether a canvas can run, and its diagnostics as lists."""
    plan, diagnostics = check_canvas(content, catalog(), _deployment(settings))
    return [plan is not None, _as_rows(diagnostics)]


@worker_task("Drawing the canvas", seconds=CHECK_SECONDS, small_size=0)
def draw_in_worker(content: bytes, settings: Settings, render: Callable[[Any], str | bytes]) -> list[Any]:
    """Return a drawing in Base64, and the errors of the canvas as lists if there is none."""
    sketch, diagnostics = sketch_source(content, catalog(), _deployment(settings, asks_servers=False))
    if sketch is None:
        return ["", _as_rows(diagnostics)]
    picture = render(sketch)
    data = picture if isinstance(picture, bytes) else picture.encode("utf-8", "replace")
    return [base64.b64encode(data).decode(), []]


@worker_task("Upgrading the canvas", seconds=CHECK_SECONDS, small_size=0)
def upgrade_in_worker(content: bytes) -> bytes:
    """Return a canvas as `upgraded_canvas` does, as JSON."""
    return msgspec.json.encode(with_components(upgrade_source(content, catalog()).document))


async def upgraded_canvas(workers: Workers, version: VersionRow) -> Any:
    """Return a stored canvas with the components that run: those of today, also if it stores only the editor's graph.

    Raises:
        CompileError: if the canvas has too many components from before RAGFlow 0.20.
        RequestError: if upgrading takes too much time or memory.
    """
    canvas = as_map(version.canvas)
    if canvas.get("components") and not is_old_canvas(canvas, catalog()):
        return version.canvas
    return msgspec.json.decode(await run_on_canvas(workers, upgrade_in_worker, version.dsl.encode()))


def _as_rows(diagnostics: Sequence[Diagnostic]) -> list[list[Any]]:
    """Return the first diagnostics as lists, in their order."""
    if len(diagnostics) > MAX_DIAGNOSTICS:
        places = sorted(range(len(diagnostics)), key=lambda place: diagnostics[place].severity != "error")
        diagnostics = [diagnostics[place] for place in sorted(places[:MAX_DIAGNOSTICS])]
    return [list(diagnostic._replace(fix=None)) for diagnostic in diagnostics]


async def draw_canvas(
    workers: Workers, settings: Settings, content: bytes, render: Callable[[Any], str | bytes]
) -> bytes:
    """Return the drawing of a canvas.

    Raises:
        CompileError: if it cannot be drawn.
        RequestError: if drawing takes too much time or memory.
    """
    picture, rows = await run_on_canvas(workers, draw_in_worker, content, without_secrets(settings), render)
    if rows:
        raise CompileError([Diagnostic(*row) for row in rows])
    return base64.b64decode(picture)


def refuse(errors: Sequence[Diagnostic]) -> None:
    """Refuse a canvas if there are errors.

    Raises:
        RequestError: if there are any.
    """
    if errors:
        more = [f"and {len(errors) - MAX_LISTED_ERRORS:,} more"] if len(errors) > MAX_LISTED_ERRORS else []
        raise draft_error("\n".join([*map(str, errors[:MAX_LISTED_ERRORS]), *more]))


def draft_error(text: str) -> RequestError:
    """Build the error for a canvas that cannot be stored or released."""
    return RequestError(text, 101, status=422, data=False, has_data=True, reason="canvas-invalid")


_REFUSED = frozenset(
    {
        "json-invalid",
        "document-too-large",
        "document-shape",
        "document-empty",
        "pipeline-document",
        "legacy-component",
        "component-unknown",
        "params-invalid",
        "id-invalid",
        "compat-invalid",
    }
)
"""Errors that are not allowed even in a draft, unless a param is not filled in yet. All others are reported when it
runs."""


async def check_draft(settings: Settings, workers: Workers, dsl: Any, *, is_released: bool = False) -> str:
    """Return a canvas, given as a JSON object or text, in its stored form.

    Raises:
        RequestError: If the canvas cannot be used as a draft, cannot run although it is to be released, or takes too
            much time or memory to check.
    """
    source, text = await _read_draft(dsl)
    _, diagnostics = await find_diagnostics(workers, settings, text.encode())
    errors = [without_position(d) for d in diagnostics if d.severity == "error"]
    refused = [d for d in errors if d.code in _REFUSED]
    refuse([d for d in refused if not (d.code == "params-invalid" and _is_unfilled(source, d.pointer))])
    if is_released:
        refuse(errors)
    return text


async def check_release(settings: Settings, workers: Workers, dsl: str) -> None:
    """Check that a canvas can run.

    Raises:
        RequestError: If it cannot, or takes too much time or memory to check.
    """
    _, diagnostics = await find_diagnostics(workers, settings, dsl.encode())
    refuse([without_position(d) for d in diagnostics if d.severity == "error"])


async def _read_draft(dsl: Any) -> tuple[dict[str, Any], str]:
    """Return a canvas as an object, and as stored."""
    fields = _decode(dsl)
    if "dsl" in fields and not fields.keys() & {"components", "graph"}:
        # A template: clients expect the graph at the top level of the stored canvas.
        fields = canvas_of({**fields, "dsl": _decode(fields["dsl"])})
    try:
        return fields, orjson.dumps(fields).decode()
    except TypeError as error:  # numbers beyond 64 bit
        raise draft_error(f"The DSL cannot be stored: {error}.") from None


def _decode(dsl: Any) -> dict[str, Any]:
    source: Any = dsl
    if isinstance(dsl, str):
        try:
            source = msgspec.json.decode(dsl)  # unlike orjson, it makes no float of a whole number beyond 64 bits
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise draft_error(f"The DSL is not JSON: {error}.") from None
    if not isinstance(source, dict):
        raise draft_error("The DSL should be a JSON object.")
    return cast("dict[str, Any]", source)


def _is_unfilled(source: Any, pointer: str) -> bool:
    """Return whether a JSON pointer leads to an empty text, as in a node that was just put into RAGFlow's editor."""
    value = source
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value == ""


def draw_picture(
    sketch: Sketch,
    render: Callable[..., str | bytes] = to_svg,
    *,
    direction: Direction = "down",
    theme: ThemeName,
    is_editors: bool = True,
) -> str | bytes:
    """Draw a sketch for `draw_canvas`. If ``is_editors``, its nodes stand where the canvas says, if it says it.

    It is here because a worker process loads the module of what it calls, and not the one of a route.
    """
    return render(sketch, direction=direction, theme=theme, as_in_editor=is_editors and sketch.has_positions)
