"""Where the parts are joined: catalog, compiler, services."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas, sketch_canvas
from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore

    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.recording.recorder import Recorder
    from ragflow_lg.base.diagnostics import Diagnostic
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

__all__ = [
    "catalog",
    "check_file",
    "cached_canvas",
    "load_canvas",
    "load_graph",
    "open_runner",
    "open_services",
    "sketch_file",
]

MAX_KEPT = 64
"""How many compiled canvases are kept."""


@lru_cache(maxsize=1)
def catalog() -> Registry:
    """Give the components of this installation, loaded once."""
    return load_catalog()


def load_canvas(
    source: Path | str | bytes | Mapping[str, Any], settings: Settings | None = None, *, asks_servers: bool = True
) -> CompiledCanvas:
    """Compile a canvas: a file by its path, the text or bytes of one, or the JSON object itself.

    A text that begins with ``{`` is a document, every other one a path. Compiled canvases are kept, by content, but
    for those that play others. Without ``settings`` the usual ones are read as soon as the canvas asks for a rule.
    ``asks_servers`` is false where the canvas does not call the MCP servers of the settings: it is replayed, only
    looked at, or given servers by services of another making. Then those that it names need not be in the settings.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if the file, or the settings, cannot be read.
    """
    read = _usual if settings is None else lambda: settings
    content = _content(source)
    if isinstance(content, Mapping):
        return compile_canvas(content, catalog(), CanvasFiles(read, asks_servers=asks_servers))
    path = Path(source) if isinstance(source, Path | str) and not _is_document(source) else None
    return _compiled(content, CanvasFiles(read, path, asks_servers=asks_servers))


def load_graph(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    model: str = "",
    settings: Settings | None = None,
    services: Services | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
) -> CanvasApplication:
    """Compile a canvas to a LangGraph graph: to run, to draw, or as a node of a graph of one's own.

    ``source`` is what `load_canvas` takes. Input: ``{"query": …, "inputs": …, "files": …}`` or ``{"messages": …}``;
    output: the state, with ``messages``, ``outputs``, ``globals``, ``history`` and ``turn``. What fails in a component
    is data, in ``turn["error"]``. It runs asynchronously (``ainvoke``, ``astream``).

    ``model`` answers for every model of the canvas (``demo`` needs no key). Models and services are those of the
    ``settings`` (default: the usual ones), open while anything runs; ``services`` of one's own take their place, and
    stay open. A graph around it brings its own ``checkpointer``.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if the file, or the settings, cannot be read.
    """
    from contextlib import nullcontext

    from ragflow_lg.dsl_compiler.lower import as_application
    from ragflow_lg.server.assembly.shared_services import SharedServices

    canvas = load_canvas(source, settings, asks_servers=services is None)

    def opening(model: str) -> AbstractAsyncContextManager[Services]:
        given = _usual() if settings is None else settings
        return open_services(given, model=model) if services is None else nullcontext(services)

    graph = as_application(canvas, SharedServices(opening, model=model))
    return graph.copy({"checkpointer": checkpointer, "store": store})


def _content(source: Path | str | bytes | Mapping[str, Any]) -> bytes | Mapping[str, Any]:
    if isinstance(source, bytes | Mapping):
        return source
    if isinstance(source, str) and _is_document(source):
        return source.encode("utf-8", "replace")
    return read_canvas(Path(source))


def _is_document(source: Path | str) -> bool:
    return isinstance(source, str) and source.lstrip("\ufeff \r\n\t").startswith("{")


def check_file(
    path: Path, settings: Callable[[], Settings] | None = None
) -> tuple[Plan | None, tuple[Diagnostic, ...], str]:
    """Check a file; give the plan if it can run, all diagnostics, and the text they point into.

    ``settings`` are read as soon as the canvas asks for a rule.
    """
    content = read_canvas(path)
    plan, diagnostics = check_canvas(content, catalog(), CanvasFiles(settings or _usual, path))
    return plan, diagnostics, content.decode("utf-8", "replace")


def sketch_file(path: Path) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """Give a plan of a file to look at, if there is one, and all diagnostics."""
    return sketch_canvas(read_canvas(path), catalog(), CanvasFiles(_usual, path, asks_servers=False))


_kept: OrderedDict[bytes, tuple[CompiledCanvas, Mapping[str, object]]] = OrderedDict()
"""Compiled canvases by content, with the rules that they asked for and were compiled by."""


def cached_canvas(content: bytes, settings: Settings) -> CompiledCanvas | None:
    """Give a compiled canvas if `load_canvas` has kept it, and would give it now; at once, without a thread."""
    return _held(content, CanvasFiles(lambda: settings))


def _held(content: bytes, files: CanvasFiles) -> CompiledCanvas | None:
    kept = _kept.get(content)
    if kept is None or not files.says(kept[1]):
        return None
    with suppress(KeyError):  # another thread may have dropped it meanwhile
        _kept.move_to_end(content)
    return kept[0]


def _compiled(content: bytes, files: CanvasFiles) -> CompiledCanvas:
    if (kept := _held(content, files)) is not None:
        return kept
    compiled = compile_canvas(content, catalog(), files)
    if not files.has_loaded:  # what it plays may change at any time
        _kept[content] = compiled, files.asked
        if len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return compiled


def _usual() -> Settings:
    from ragflow_lg.server.settings import load_settings

    return load_settings(None)


@asynccontextmanager
async def open_services(
    settings: Settings, *, model: str = "", recording: Recorder | Player | None = None
) -> AsyncGenerator[Services]:
    """Make the services that the settings describe, and close them again. ``model`` answers for every other.

    A tape records them, or takes their place.
    """
    from ragflow_lg.adapters.chat.chat_models import ConfiguredModels
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.local_files import InlineFiles
    from ragflow_lg.adapters.mcp.mcp_servers import McpServers
    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.system_services import RandomIds, SystemClock
    from ragflow_lg.server.assembly.call_policies import tool_policies
    from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
    from ragflow_lg.services.services import Services

    clock = SystemClock()
    policies = tool_policies(settings, clock)
    if isinstance(recording, Player):
        yield recording.services(InlineFiles(), clock, RandomIds(), policies)
        return
    models = ConfiguredModels(settings.chat_settings(override_model=model))
    http = GuardedHttpClient(settings.http_settings)
    servers = McpServers(settings.mcp_settings(), http)
    knowledge = SettingsKnowledge(settings)
    try:
        services = Services(
            models,
            http,
            InlineFiles(),
            clock,
            RandomIds(),
            settings.tool_settings,
            policies,
            servers=servers,
            knowledge=knowledge,
            secrets=settings.secrets,
        )
        yield recording.wrap(services) if recording is not None else services
    finally:
        await knowledge.aclose()
        await servers.aclose()
        await models.aclose()
        await http.aclose()


@asynccontextmanager
async def open_runner(
    source: Path | str | bytes | Mapping[str, Any],
    *,
    model: str = "",
    checkpoint: str = "memory://",
    record: Path | str = "",
    replay: Path | str = "",
    callbacks: Sequence[RunCallbacks] = (),
) -> AsyncGenerator[Runner]:
    """Open a runner of a canvas with the models and services of the settings, and close them again.

    ``model`` answers for every model of the canvas (``demo`` needs no key); ``checkpoint`` is the URL of the store of
    sessions; ``record`` and ``replay`` name a file that takes down, or gives, what models and servers answer;
    ``callbacks`` are told of every run, beside those that the settings ask for.

    Raises:
        CompileError: if the canvas has errors.
        SettingsError: if a file or a setting is wrong.
        CheckpointError: if the store cannot be opened.
        CassetteError: if the recording cannot be read or written.
    """
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.checkpoints import open_store
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.recordings import open_recording
    from ragflow_lg.server.observability.telemetry import open_callbacks
    from ragflow_lg.server.settings import load_settings

    settings = load_settings(None)
    canvas = load_canvas(source, settings, asks_servers=not replay)
    store = open_store(checkpoint, SystemClock(), prefix=settings.checkpoint_prefix, ttl_s=settings.checkpoint_ttl_s)
    limit = settings.run.event_limit
    with open_recording(
        record, replay, plan=canvas.plan, secrets=settings.secrets, sources=[_content(source)]
    ) as recording:
        async with (
            open_callbacks(settings) as more,
            store as opened,
            open_services(settings, model=model, recording=recording) as services,
        ):
            yield Runner(canvas, services, store=opened, event_limit=limit, callbacks=(*callbacks, *more))
