"""Services that runs share: opened for the first of them, closed behind the last.

A graph that LangGraph runs has no beginning and no end of its own, and clients belong to the event loop in which they
were opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services

__all__ = ["Opening", "SharedServices"]

Opening: TypeAlias = "Callable[[str], AbstractAsyncContextManager[Services]]"
"""Opens services of which the named model answers for all, ``""`` for none."""


class _Opened:
    """Services of one event loop that answer by one model, and how many runs have them."""

    def __init__(self, services: Services, stack: AsyncExitStack) -> None:
        self.services = services
        self.stack = stack
        self.users = 0


class SharedServices:
    """The `ragflow_lg.dsl_compiler.lower.OpenServices` of a process."""

    def __init__(self, opening: Opening, *, model: str = "", stays_open: bool = False) -> None:
        """``model`` answers where a run names none. With ``stays_open`` services are open as long as their loop is."""
        self._opening = opening
        self._model = model
        self._stays_open = stays_open
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Opened]] = WeakKeyDictionary()

    @asynccontextmanager
    async def __call__(self, *, model: str) -> AsyncGenerator[Services]:
        """Give services meanwhile."""
        name = model or self._model
        held = self._opened.setdefault(asyncio.get_running_loop(), {})
        if (opened := held.get(name)) is None:
            stack = AsyncExitStack()
            services = await stack.enter_async_context(self._opening(name))
            opened = held.setdefault(name, _Opened(services, stack))
        opened.users += 1
        try:
            yield opened.services
        finally:
            opened.users -= 1
            if not opened.users and not self._stays_open:
                del held[name]
                await opened.stack.aclose()
