"""Time limits for the nodes that run in a turn, and a way to cancel all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager


class Limits:
    """The limits of all running nodes. An instance belongs to one event loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """End the block after ``seconds``, or only by `end_all` if None.

        Raises:
            TimeoutError: if the block was ended. A cancellation from outside remains a cancellation.
        """
        async with asyncio.timeout(seconds) as limit:
            self._running.add(limit)
            try:
                yield limit
            finally:
                self._running.discard(limit)

    def end_all(self) -> None:
        """End everything that is running."""
        for limit in self._running:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())


@contextmanager
def paused(limit: asyncio.Timeout) -> Generator[None]:
    """Do not count the time spent inside this block. After its end, a limit has no time to count."""
    if limit.expired():
        yield
        return
    clock, end = asyncio.get_running_loop().time, limit.when()
    began = clock()
    limit.reschedule(None)
    try:
        yield
    finally:
        if end is not None and limit.when() is None and not limit.expired():
            limit.reschedule(end + clock() - began)
