"""The queue by which events leave a run."""

from __future__ import annotations

import asyncio
from collections import deque

from ragflow_lg.component.events import EngineEvent

__all__ = ["EventSink"]


class EventSink:
    """A bounded queue from the nodes of one run to its one reader.

    A full sink makes the writer wait; a closed one drops what it is given.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._events: deque[EngineEvent] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether the next writer has to wait."""
        return len(self._events) >= self._limit and not self._is_closed

    async def room(self) -> None:
        """Wait until there is room."""
        while self.is_full:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def put(self, event: EngineEvent) -> None:
        """Add an event, without looking at the limit."""
        if self._is_closed:
            return
        self._events.append(event)
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def take(self) -> list[EngineEvent]:
        """Wait for events and give all there are; an empty list means that the sink is closed."""
        while not self._events and not self._is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        events = list(self._events)
        self._events.clear()
        if self._waiting:
            self._release()
        return events

    def close(self) -> None:
        """End the queue: the reader gets what is left, writers no longer wait."""
        self._is_closed = True
        self._release()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
