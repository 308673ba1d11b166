"""Timers that usually are cancelled long before they end. All of an event loop share one of the loop's own timers.

An open stream has three. One of the loop takes 0.6 kB, and one of these a quarter of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from heapq import heapify, heappop, heappush

MOST_CANCELLED = 1000
"""How many timers that were cancelled are kept at most beside as many that were not."""


def call_at(due: float, work: Callable[[], object]) -> LongTimer:
    """Call ``work`` at a time on the clock of the running loop, in an empty context."""
    loop = asyncio.get_running_loop()
    if (timers := _TIMERS.get(loop)) is None:
        for ended in [known for known in list(_TIMERS) if known.is_closed()]:
            _TIMERS.pop(ended, None)  # other threads may have loops of their own
        timers = _TIMERS[loop] = _Timers()
    timer = LongTimer(timers, due, work)
    timers.add(timer, loop)
    return timer


def call_later(delay_s: float, work: Callable[[], object]) -> LongTimer:
    """Call ``work`` after some seconds; see `call_at`."""
    return call_at(asyncio.get_running_loop().time() + delay_s, work)


class LongTimer:
    """A call that comes later, unless it is cancelled."""

    __slots__ = ("_timers", "due", "work")

    def __init__(self, timers: _Timers, due: float, work: Callable[[], object]) -> None:
        self._timers = timers
        self.due = due
        self.work: Callable[[], object] | None = work
        """None as soon as it has been called or cancelled."""

    def __lt__(self, other: LongTimer) -> bool:
        """Return whether it ends before another one."""
        return self.due < other.due

    def cancel(self) -> None:
        """Do not call the function. Repeated calls do nothing."""
        if self.work is not None:
            self.work = None
            self._timers.count_cancelled()

    def end(self) -> None:
        """Call the function, unless the timer has been cancelled."""
        work, self.work = self.work, None
        if work is not None:
            work()


class _Timers:
    """The timers of an event loop."""

    def __init__(self) -> None:
        self._waiting: list[LongTimer] = []
        """A heap, whose first timer is the next one."""
        self._cancelled = 0
        """How many timers have been cancelled since those were last removed."""
        self._next: asyncio.TimerHandle | None = None

    def add(self, timer: LongTimer, loop: asyncio.AbstractEventLoop) -> None:
        heappush(self._waiting, timer)
        if self._waiting[0] is timer:
            self._wait(loop)

    def count_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > MOST_CANCELLED and self._cancelled * 2 > len(self._waiting):
            self._waiting = [timer for timer in self._waiting if timer.work is not None]
            heapify(self._waiting)
            self._cancelled = 0

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the first timer."""
        if self._next is not None:
            self._next.cancel()
        # The context of a request would be kept, and those that wait for others would be its tenant's.
        self._next = loop.call_at(self._waiting[0].due, self._end, loop, context=Context()) if self._waiting else None

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the timers that are due."""
        now = loop.time()
        while self._waiting and self._waiting[0].due <= now:
            loop.call_soon(heappop(self._waiting).end, context=Context())  # each reports its own error
        self._wait(loop)


_TIMERS: dict[asyncio.AbstractEventLoop, _Timers] = {}
