"""The queue for a run's events."""

from __future__ import annotations

import asyncio
from collections import deque

from ragflow_lg.component.events import EngineEvent


class EventSink:
    """A bounded queue from the nodes of one run to its single reader.

    If the sink is full, writers wait; if it is closed, further events are dropped.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._events: deque[EngineEvent] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether the next writer has to wait."""
        return len(self._events) >= self._limit and not self._is_closed

    async def room(self) -> None:
        """Wait until the sink is not full."""
        while self.is_full:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def put(self, event: EngineEvent) -> None:
        """Add an event, regardless of the limit."""
        if self._is_closed:
            return
        self._events.append(event)
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def take(self) -> list[EngineEvent]:
        """Wait for events and return all of them; an empty list means that the sink is closed."""
        while not self._events and not self._is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        events = list(self._events)
        self._events.clear()
        if self._waiters:
            self._release()
        return events

    def close(self) -> None:
        """Close the queue: the reader receives the remaining events, and writers no longer wait."""
        self._is_closed = True
        self._release()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _release(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
