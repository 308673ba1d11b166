"""Graph factories, which LangGraph's server calls for every operation to get the current version of a canvas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import CompileError, InputRefusedError
from ragflow_lg.server.assembly.library import catalog, load_canvas, sketch_file
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.shared_services import SharedServices

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


@cache
def _settings() -> Settings:
    from ragflow_lg.server.settings import load_settings

    return load_settings(None)


def _open_services(model: str) -> AbstractAsyncContextManager[Services]:
    return open_services(_settings(), model=model)


@cache
def _services(model: str) -> SharedServices:
    """Return the services for all graphs with this model. They stay open between runs."""
    return SharedServices(_open_services, model=model, stays_open=True)


def canvas_factory(path: Path | str, *, model: str = "") -> Callable[..., Awaitable[CanvasApplication]]:
    """Return the graph factory for a canvas file.

    The file is recompiled when it has changed. A canvas that cannot run still has a graph to view, if it can be
    drawn. ``model`` replaces every model in the canvas.

    The factory ignores its only parameter, a run's configuration. Aegra calls factories without parameters only once,
    when it starts.
    """
    _prepare()
    file = Path(path).absolute()
    cache: dict[tuple[int, int], CanvasApplication] = {}

    async def graph(_config: Any = None) -> CanvasApplication:
        version = _version(file)
        if version not in cache:
            application = await asyncio.to_thread(_compile, file, model)
            cache.clear()
            cache[version] = application
        return cache[version]

    return graph


@cache
def _prepare() -> None:
    """Import the modules that every canvas needs when the server starts instead of during the first request."""
    for name in (
        "ragflow_lg.dsl_compiler.lower",
        "ragflow_lg.adapters.chat.model_resolution",
        "ragflow_lg.adapters.http.http_client",
    ):
        import_module(name)
    catalog()
    _settings()


def _version(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError as error:
        reason = f"{str(file)!r} cannot be read: {error.strerror}. Run `ragflow-lg studio` again."
        raise InputRefusedError(reason) from None
    return status.st_mtime_ns, status.st_size


def _compile(file: Path, model: str) -> CanvasApplication:
    from ragflow_lg.dsl_compiler.lower import as_application, lower_plan

    try:
        return as_application(load_canvas(file, _settings(), model=model), _services(model))
    except CompileError as error:
        plan, _ = sketch_file(file)
        if plan is None:
            raise InputRefusedError(str(error)) from None
        return as_application(lower_plan(plan), _services(model), refusal=str(error))


@asynccontextmanager
async def open_sessions() -> AsyncGenerator[Any]:
    """Open the session store from the settings and yield its saver, for ``checkpointer`` in ``langgraph.json``."""
    from ragflow_lg.checkpoints import open_store

    settings = _settings()
    opened = open_store(settings.checkpoints, **settings.store_options)
    async with opened as store:
        yield store.saver


@asynccontextmanager
async def open_memories() -> AsyncGenerator[Any]:
    """Open LangGraph's store beside the sessions, which contains the memories, for ``store`` in ``langgraph.json``."""
    from ragflow_lg.checkpoints import open_items

    settings = _settings()
    options = settings.store_options
    async with open_items(settings.checkpoints, prefix=options["prefix"], keys=options["keys"]) as items:
        yield items
