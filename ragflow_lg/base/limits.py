"""Time limits of the nodes that run in a turn, and the cancel that ends them all.

One timer serves all limits of a turn: to start and stop one for each visit took longer than most visits do.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

__all__ = ["Limit", "Limits"]


class Limits:
    """The limits of all nodes that run now. It belongs to one event loop."""

    def __init__(self) -> None:
        self._running: set[Limit] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer rings, on the loop's clock."""

    def limit(self, seconds: float | None) -> Limit:
        """Give a limit to run something within; None lasts for ever, but can be ended by `end_all`."""
        return Limit(self, seconds)

    def end_all(self) -> None:
        """End whatever runs now."""
        for limit in self._running:
            limit.end()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, math.inf

    def enter(self, limit: Limit) -> None:
        """Begin to watch a limit."""
        self._running.add(limit)
        self.watch(limit.due)

    def leave(self, limit: Limit) -> None:
        """Forget a limit. The timer goes on: the next node will want it."""
        self._running.discard(limit)

    def watch(self, due: float) -> None:
        """Let the timer ring no later than this."""
        if due < self._due:
            self.close()
            self._due = due
            self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        self.close()
        for limit in self._running:
            if limit.due <= now:
                limit.end()
        self.watch(min((limit.due for limit in self._running), default=math.inf))


class Limit:
    """Raises TimeoutError out of its ``with`` block when the time is up or the turn is cancelled.

    As with ``asyncio.timeout``, a cancel that comes from elsewhere stays one.
    """

    __slots__ = ("_cancels_before", "_limits", "_seconds", "_task", "due", "is_over")

    def __init__(self, limits: Limits, seconds: float | None) -> None:
        self._limits = limits
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._cancels_before = 0
        self.due = math.inf
        """When the time is up, on the loop's clock."""
        self.is_over = False
        """Whether the block was ended."""

    def __enter__(self) -> Limit:
        """Begin."""
        task = self._task = asyncio.current_task()
        assert task is not None
        self._cancels_before = task.cancelling()
        if self._seconds is not None:
            self.due = asyncio.get_running_loop().time() + self._seconds
        self._limits.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; turn the cancel by which `end` works into a TimeoutError."""
        task, self._task = self._task, None
        self._limits.leave(self)
        if self.is_over and task is not None:
            is_ours = task.uncancel() <= self._cancels_before
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def end(self) -> None:
        """End what runs inside."""
        if self._task is not None and not self.is_over:
            self.is_over = True
            self.due = math.inf
            self._task.cancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let the time not count that is spent inside."""
        loop = asyncio.get_running_loop()
        left, self.due = self.due - loop.time(), math.inf
        try:
            yield
        finally:
            if not self.is_over:
                self.due = loop.time() + left
                self._limits.watch(self.due)
