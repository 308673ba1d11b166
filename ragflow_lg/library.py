"""The doors of the library: `load_canvas`, `check_canvas` and `open_runner`, with what the settings describe."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragflow_lg.dsl_compiler import NO_LIMITS
from ragflow_lg.server.assembly import library
from ragflow_lg.server.assembly.library import Compat
from ragflow_lg.server.assembly.open_services import open_services

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from ragflow_lg.base.diagnostics import Diagnostic
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


def load_canvas(
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

    ``source`` is a path, text, bytes or a JSON object; text that begins with ``{`` is a document. The input is
    ``{"query": …, "inputs": …, "files": …}`` or ``{"messages": …}``. The output is the state, with ``messages``,
    ``outputs``, ``globals``, ``history`` and ``turn``. ``ainvoke`` and ``invoke`` raise RunFailedError if a component's
    error has stopped the turn; without ``raise_errors``, the state has it as ``error``. The graph runs asynchronously;
    ``invoke`` and ``stream`` wait for an event loop in another thread. A notebook shows its drawing.

    ``model`` replaces every model in the canvas (``demo`` needs no key). Models and services are taken from
    ``settings``, or from the default settings, and stay open while anything is running. ``services`` replaces them and
    is not closed. A surrounding graph uses its own ``checkpointer``. ``compat`` replaces the section ``[compat]`` of
    the settings: ``"ragflow"``, or single behaviours such as ``{"jinja_text": True}``. ``tools`` are tools of LangChain
    and functions; the canvas uses them by their names, as the tools of an Agent or as nodes.

    Raises:
        CompileError: If the canvas has errors.
        SettingsError: If the file or the settings cannot be read, or a tool is invalid.
    """
    from ragflow_lg.dsl_compiler.lower import as_application
    from ragflow_lg.server.assembly.shared_services import SharedServices

    canvas = library.load_canvas(
        source, settings, model=model, asks_servers=services is None, compat=compat, tools=tools
    )

    def open_by_model(model: str) -> AbstractAsyncContextManager[Services]:
        source_settings = library.default_settings() if settings is None else settings
        return open_services(source_settings, model=model) if services is None else nullcontext(services)

    def draw() -> str:
        from ragflow_lg.dsl_compiler.drawing import sketch_plan, to_svg

        return to_svg(sketch_plan(canvas.plan))

    graph = as_application(canvas, SharedServices(open_by_model, model=model), draw=draw, raises_errors=raise_errors)
    return graph.copy({"checkpointer": checkpointer, "store": store})


def check_canvas(
    source: Path | str | bytes | Mapping[str, Any], *, settings: Settings | None = None
) -> tuple[Diagnostic, ...]:
    """Check a canvas and what it needs, without running it, as ``ragflow-lg check`` does. Return what was found.

    ``source`` is the same as for `load_canvas`. The canvas can run if no diagnostic has the severity ``error``. Lines
    in a JSON object are those of ``json.dumps(source, indent=2)``.

    Raises:
        SettingsError: If the file or the settings cannot be read.
    """
    content = library.read_content(source)
    if isinstance(content, Mapping):
        content = json.dumps(content, indent=2, default=str).encode()
    path = Path(source) if isinstance(source, Path | str) and not library.is_document(source) else None
    load = library.default_settings if settings is None else lambda: settings
    limits = NO_LIMITS if path else load().limits.canvas
    return library.check_text(content.decode("utf-8", "replace"), path, load, limits).diagnostics


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
    from ragflow_lg.checkpoints import open_store
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.recordings import open_recording
    from ragflow_lg.server.assembly.run_callbacks import open_callbacks
    from ragflow_lg.server.settings import load_settings

    settings = load_settings(None)
    canvas = library.load_canvas(source, settings, model=model, asks_servers=not replay, compat=compat)
    store = open_store(checkpoint, **settings.store_options)
    with open_recording(
        record, replay, plan=canvas.plan, secrets=settings.secrets, sources=[library.read_content(source)]
    ) as recording:
        async with (
            open_callbacks(settings) as more,
            store as session_store,
            open_services(settings, model=model, recording=recording) as services,
        ):
            yield Runner(canvas, services, store=session_store, callbacks=(*callbacks, *more))
