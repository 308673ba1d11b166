"""Services shared by runs: opened for the first run and closed after the last.

A graph run by LangGraph has no hooks for its start and end, and clients belong to the event loop that opened them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services

ServicesFactory: TypeAlias = "Callable[[str], AbstractAsyncContextManager[Services]]"
"""Opens services in which the given model replaces all others; ``""`` replaces none."""


class _OpenServices:
    """The services for one event loop and model, with the number of runs that use them."""

    def __init__(self, services: Services, stack: AsyncExitStack) -> None:
        self.services = services
        self.stack = stack
        self.users = 0


class SharedServices:
    """A process's `ragflow_lg.dsl_compiler.lower.OpenServices`."""

    def __init__(self, factory: ServicesFactory, *, model: str = "", stays_open: bool = False) -> None:
        """Initialize. ``model`` is the default; ``stays_open`` keeps services open as long as their event loop."""
        self._factory = factory
        self._model = model
        self._stays_open = stays_open
        self._entries: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _OpenServices]] = WeakKeyDictionary()

    @asynccontextmanager
    async def __call__(self, *, model: str) -> AsyncGenerator[Services]:
        """Yield the services, which stay open for the duration of the block."""
        name = model or self._model
        by_model = self._entries.setdefault(asyncio.get_running_loop(), {})
        if (entry := by_model.get(name)) is None:
            stack = AsyncExitStack()
            services = await stack.enter_async_context(self._factory(name))
            entry = by_model.setdefault(name, _OpenServices(services, stack))
        entry.users += 1
        try:
            yield entry.services
        finally:
            entry.users -= 1
            if not entry.users and not self._stays_open:
                del by_model[name]
                await entry.stack.aclose()
