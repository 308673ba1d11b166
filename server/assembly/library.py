"""The library's entry points, which combine the catalog, compiler and services according to the settings."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.base.sized_cache import SizedCache
from ragflow_lg.catalog import load_catalog, spec_of_any_tool
from ragflow_lg.dsl.compatibility import Compatibility, read_choices
from ragflow_lg.dsl_compiler import (
    NO_LIMITS,
    CanvasLimits,
    CheckedCanvas,
    add_positions,
    check_canvas,
    compile_canvas,
    inspect_canvas,
)
from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
from ragflow_lg.server.assembly.canvas_needs import Need, check_needs, list_needs
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.prompt_sizes import check_prompt_sizes
from ragflow_lg.server.assembly.unsent_params import check_sent_params

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from ragflow_lg.base.diagnostics import Diagnostic, Severity
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

Compat: TypeAlias = Literal["ragflow"] | Mapping[str, bool]
"""RAGFlow's behaviours: all of them, or a choice by name as in `ragflow_lg.dsl.compatibility`."""

MAX_CACHED_BYTES = 16 * 1024 * 1024
"""How large the compiled canvases of a cache are together; see `cached_bytes`."""

CANVAS_BYTES = 128 * 1024
"""What a small compiled canvas takes."""


@lru_cache(maxsize=1)
def catalog() -> Registry:
    """Return the components in this installation. They are loaded only once."""
    return load_catalog()


def load_canvas(
    source: Path | str | bytes | Mapping[str, Any],
    settings: Settings | None = None,
    *,
    asks_servers: bool = True,
    compat: Compat | None = None,
    tools: Sequence[Any] = (),
) -> CompiledCanvas:
    """Compile a canvas, given as a file path, as text or bytes, or as a JSON object.

    Text that begins with ``{`` is a document; any other text is a path. Compiled canvases are cached by content, except
    those that run others. Without ``settings``, the default settings are loaded as soon as the canvas needs a rule.
    ``asks_servers`` is false if the canvas will not call the MCP servers in the settings because it is replayed, only
    inspected, or run with other services. In that case, its servers need not be in the settings. ``compat`` replaces
    the section ``[compat]`` of the settings. ``tools`` are components of this canvas only; it is not cached then.

    Raises:
        CompileError: If the canvas has errors.
        SettingsError: If the file or the settings cannot be read, or a tool is invalid.
    """
    read = _default_settings if settings is None else lambda: settings
    content = _content(source)
    path = Path(source) if isinstance(source, Path | str) and not _is_document(source) else None
    limits = NO_LIMITS if settings is None or path else settings.limits.canvas
    files = CanvasFiles(read, path, asks_servers=asks_servers, compatibility=_compatibility(compat), limits=limits)
    try:
        if isinstance(content, Mapping) or tools:
            return compile_canvas(content, _catalog_with(tools), files)
        return _compile(content, files)
    except CompileError as error:
        raise (error if path is None else CompileError(error.diagnostics, file=str(path))) from None


def _catalog_with(tools: Sequence[Any]) -> Registry:
    """Return the catalog with more tools, by their own names."""
    if not tools:
        return catalog()
    registry = load_catalog()
    for tool in tools:
        name = str(getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__))
        try:
            registry.add(spec_of_any_tool(name, tool))
        except ValueError:
            raise SettingsError(f"The tool {name!r} has the name of a component or of another tool.") from None
    return registry


def _compatibility(compat: Compat | None) -> Compatibility | None:
    if compat is None:
        return None
    choices, problems = read_choices(compat)
    if problems:
        texts = [f"{problem.message} {problem.hint}" for problem in problems]
        raise SettingsError(f"compat is wrong: {' '.join(texts)}")
    return Compatibility().override(choices)


def load_graph(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    model: str = "",
    settings: Settings | None = None,
    services: Services | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    compat: Compat | None = None,
    tools: Sequence[Any] = (),
    raise_errors: bool = True,
) -> CanvasApplication:
    """Compile a canvas to a LangGraph graph that can be run, drawn, or used as a node in another graph.

    ``source`` is the same as for `load_canvas`. The input is ``{"query": …, "inputs": …, "files": …}`` or
    ``{"messages": …}``. The output is the state, with ``messages``, ``outputs``, ``globals``, ``history`` and ``turn``.
    ``ainvoke`` and ``invoke`` raise RunFailedError if a component's error has stopped the turn; without
    ``raise_errors``, the state has it as ``error``. The graph runs asynchronously; ``invoke`` and
    ``stream`` wait for an event loop in another thread. A notebook shows its drawing.

    ``model`` replaces every model in the canvas (``demo`` needs no key). Models and services are taken from
    ``settings``, or from the default settings, and stay open while anything is running. ``services`` replaces them and
    is not closed. A surrounding graph uses its own ``checkpointer``. ``compat`` replaces the section ``[compat]`` of
    the settings: ``"ragflow"``, or single behaviours such as ``{"jinja_text": True}``. ``tools`` are tools of LangChain
    and functions; the canvas uses them by their names, as the tools of an Agent or as nodes.

    Raises:
        CompileError: If the canvas has errors.
        SettingsError: If the file or the settings cannot be read, or a tool is invalid.
    """
    from contextlib import nullcontext

    from ragflow_lg.dsl_compiler.lower import as_application
    from ragflow_lg.server.assembly.shared_services import SharedServices

    canvas = load_canvas(source, settings, asks_servers=services is None, compat=compat, tools=tools)

    def open_by_model(model: str) -> AbstractAsyncContextManager[Services]:
        source_settings = _default_settings() if settings is None else settings
        return open_services(source_settings, model=model) if services is None else nullcontext(services)

    def draw() -> str:
        from ragflow_lg.dsl_compiler.drawing import sketch_plan, to_svg

        return to_svg(sketch_plan(canvas.plan))

    graph = as_application(canvas, SharedServices(open_by_model, model=model), draw=draw, raises_errors=raise_errors)
    return graph.copy({"checkpointer": checkpointer, "store": store})


def _content(source: Path | str | bytes | Mapping[str, Any]) -> bytes | Mapping[str, Any]:
    if isinstance(source, bytes | Mapping):
        return source
    if isinstance(source, str) and _is_document(source):
        return source.encode("utf-8", "replace")
    return read_canvas(Path(source))


def _is_document(source: Path | str) -> bool:
    return isinstance(source, str) and source.lstrip("\ufeff \r\n\t").startswith("{")


def check_source(
    source: Path | str | bytes | Mapping[str, Any], *, settings: Settings | None = None
) -> tuple[Diagnostic, ...]:
    """Check a canvas and what it needs, without running it, as ``ragflow-lg check`` does. Return what was found.

    ``source`` is the same as for `load_canvas`. The canvas can run if no diagnostic has the severity ``error``. Lines
    in a JSON object are those of ``json.dumps(source, indent=2)``.

    Raises:
        SettingsError: If the file or the settings cannot be read.
    """
    content = _content(source)
    if isinstance(content, Mapping):
        content = json.dumps(content, indent=2, default=str).encode()
    path = Path(source) if isinstance(source, Path | str) and not _is_document(source) else None
    load = _default_settings if settings is None else lambda: settings
    limits = NO_LIMITS if path else load().limits.canvas
    return check_text(content.decode("utf-8", "replace"), path, load, limits).diagnostics


def check_file(
    path: Path,
    settings: Callable[[], Settings] | None = None,
    *,
    is_uploaded: bool = False,
    missing_severity: Severity = "warning",
) -> tuple[Plan | None, tuple[Diagnostic, ...], str]:
    """Check a file and what it needs. Return the plan if it can run, all diagnostics, and the text they refer to.

    ``settings`` is loaded as soon as the canvas needs a rule. With ``is_uploaded``, the canvas is checked as if it were
    uploaded to a server: with the limits on its size, and without the other files in its folder. What it needs and the
    settings lack is reported with ``missing_severity``; the plan is returned nevertheless.
    """
    content, load = read_canvas(path), cache(settings or _default_settings)
    files = CanvasFiles(load, limits=load().limits.canvas) if is_uploaded else CanvasFiles(load, path)
    text = content.decode("utf-8", "replace")
    checked = _check(content, text, load, files, missing_severity)
    return checked.plan, checked.diagnostics, text


def check_text(text: str, path: Path | None, settings: Callable[[], Settings], limits: CanvasLimits) -> CheckedCanvas:
    """Check a text as `check_file` checks the file at ``path``, whatever that contains."""
    load = cache(settings)
    return _check(text, text, load, CanvasFiles(load, path, limits=limits), "warning")


def _check(
    content: str | bytes, text: str, load: Callable[[], Settings], files: CanvasFiles, severity: Severity
) -> CheckedCanvas:
    checked = inspect_canvas(content, catalog(), files)
    if checked.plan is None:
        return checked
    found = [
        *check_needs(checked.plan, load, severity),
        *check_prompt_sizes(checked.plan, load),
        *check_sent_params(checked.plan, load),
    ]
    return checked._replace(diagnostics=add_positions((*checked.diagnostics, *found), text)) if found else checked


def needs_of_file(path: Path, settings: Settings) -> tuple[Need, ...]:
    """Return everything that the canvas in a file needs from outside.

    Raises:
        CompileError: if it has errors.
    """
    plan, diagnostics, _ = check_file(path, lambda: settings)
    if plan is None:
        raise CompileError(diagnostics, file=str(path))
    return list_needs(plan, settings)


def sketch_file(path: Path) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """Return the plan for a file for display purposes, if there is one, and all diagnostics."""
    return check_canvas(read_canvas(path), catalog(), CanvasFiles(_default_settings, path, asks_servers=False))


_cache: SizedCache[bytes, tuple[CompiledCanvas, Mapping[str, object]]] = SizedCache(MAX_CACHED_BYTES)
"""Compiled canvases by a digest of their content, with the rules under which they were compiled."""


def cached_bytes(chars: int) -> int:
    """Return about how many bytes a compiled canvas takes that has so many characters."""
    return CANVAS_BYTES + chars


def cached_canvas(content: bytes, settings: Settings) -> CompiledCanvas | None:
    """Return a compiled canvas from the cache if `load_canvas` would now return the same one. Needs no thread."""
    return _find_cached(content, CanvasFiles(lambda: settings))


def _find_cached(content: bytes, files: CanvasFiles) -> CompiledCanvas | None:
    entry = _cache.get(_digest(content))
    return entry[0] if entry is not None and files.matches(entry[1]) else None


def _compile(content: bytes, files: CanvasFiles) -> CompiledCanvas:
    if (canvas := _find_cached(content, files)) is not None:
        return canvas
    canvas = compile_canvas(content, catalog(), files)
    if not files.has_loaded:  # the canvases that it runs may change at any time
        _cache.put(_digest(content), (canvas, files.rules), cached_bytes(len(content)))
    return canvas


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _default_settings() -> Settings:
    from ragflow_lg.server.settings import load_settings

    return load_settings(None)


@asynccontextmanager
async def open_runner(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    model: str = "",
    checkpoint: str = "memory://",
    record: Path | str = "",
    replay: Path | str = "",
    callbacks: Sequence[RunCallbacks] = (),
    compat: Compat | None = None,
) -> AsyncGenerator[Runner]:
    """Open a runner for a canvas with the models and services from the settings.

    ``model`` replaces every model in the canvas (``demo`` needs no key). ``checkpoint`` is the session store's URL.
    ``record`` and ``replay`` are files to which answers from models and servers are recorded, or from which they are
    replayed. ``callbacks`` are called for every run, in addition to those from the settings. ``compat`` replaces the
    section ``[compat]`` of the settings.

    Raises:
        CompileError: If the canvas has errors.
        SettingsError: If a file or a setting is invalid.
        CheckpointError: If the store cannot be opened.
        CassetteError: If the recording cannot be read or written.
    """
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.checkpoints import open_store
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.recordings import open_recording
    from ragflow_lg.server.assembly.run_callbacks import open_callbacks
    from ragflow_lg.server.settings import load_settings

    settings = load_settings(None)
    canvas = load_canvas(source, settings, asks_servers=not replay, compat=compat)
    store = open_store(checkpoint, SystemClock(), **settings.store_options)
    limit = settings.run.event_limit
    with open_recording(
        record, replay, plan=canvas.plan, secrets=settings.secrets, sources=[_content(source)]
    ) as recording:
        async with (
            open_callbacks(settings) as more,
            store as session_store,
            open_services(settings, model=model, recording=recording) as services,
        ):
            yield Runner(canvas, services, store=session_store, event_limit=limit, callbacks=(*callbacks, *more))
