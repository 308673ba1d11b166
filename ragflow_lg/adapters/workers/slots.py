"""A limit on work at the same time, and on how much may wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ragflow_lg.base.errors import WorkLimitError


class Slots:
    """A number of slots. What waits for one gets it in the order of its requests."""

    def __init__(self, size: int, max_waiting: int, what: str) -> None:
        """Initialize. ``what`` is for messages, such as ``for a browser``."""
        self._free = asyncio.Semaphore(size)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._what = what

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Hold a slot for the duration of the block.

        Raises:
            WorkLimitError: if too much is waiting.
        """
        if self._free.locked() and self._waiting >= self._max_waiting:
            message = f"{self._waiting:,} tasks are already waiting {self._what}. Try again in a few seconds."
            raise WorkLimitError(message, is_retryable=True)
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
