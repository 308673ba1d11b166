"""Graph factories: LangGraph's server calls one for every operation and gets the canvas as its file is now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import CompileError, InputRefusedError
from ragflow_lg.server.assembly.library import catalog, load_canvas, open_services, sketch_file
from ragflow_lg.server.assembly.shared_services import SharedServices

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

__all__ = ["canvas_factory", "open_sessions"]


@cache
def _settings() -> Settings:
    from ragflow_lg.server.settings import load_settings

    return load_settings(None)


def _opening(model: str) -> AbstractAsyncContextManager[Services]:
    return open_services(_settings(), model=model)


@cache
def _services(model: str) -> SharedServices:
    """Give the services of all graphs that answer by a model; they stay open, for runs follow each other."""
    return SharedServices(_opening, model=model, stays_open=True)


def canvas_factory(path: Path | str, *, model: str = "") -> Callable[[], Awaitable[CanvasApplication]]:
    """Make a factory of a canvas file.

    The file is read anew when it has changed. Of a canvas that cannot run there is a graph to look at, if it can be
    drawn at all. ``model`` answers in place of every model of the canvas.
    """
    _prepare()
    file = Path(path).absolute()
    kept: dict[tuple[int, int], CanvasApplication] = {}

    async def graph() -> CanvasApplication:
        seen = _version(file)
        if seen not in kept:
            compiled = await asyncio.to_thread(_compiled, file, model)
            kept.clear()
            kept[seen] = compiled
        return kept[seen]

    return graph


@cache
def _prepare() -> None:
    """Load what every canvas needs, when the server starts and not with the first request."""
    for name in (
        "ragflow_lg.dsl_compiler.lower",
        "ragflow_lg.adapters.chat.chat_models",
        "ragflow_lg.adapters.http.http_client",
    ):
        import_module(name)
    catalog()
    _settings()


def _version(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError as error:
        reason = f"{str(file)!r} cannot be read: {error.strerror}. Run `ragflow-lg studio` again."
        raise InputRefusedError(reason) from None
    return found.st_mtime_ns, found.st_size


def _compiled(file: Path, model: str) -> CanvasApplication:
    from ragflow_lg.dsl_compiler.lower import as_application, lower_plan

    try:
        return as_application(load_canvas(file, _settings()), _services(model))
    except CompileError as error:
        plan, _ = sketch_file(file)
        if plan is None:
            raise InputRefusedError(str(error)) from None
        return as_application(lower_plan(plan), _services(model), refusal=str(error))


@asynccontextmanager
async def open_sessions() -> AsyncGenerator[Any]:
    """Open the store of sessions that the settings name, for ``checkpointer`` in ``langgraph.json``."""
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.checkpoints import open_store

    settings = _settings()
    opened = open_store(
        settings.checkpoints, SystemClock(), prefix=settings.checkpoint_prefix, ttl_s=settings.checkpoint_ttl_s
    )
    async with opened as store:
        yield store.saver
