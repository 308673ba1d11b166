"""Time limits for the nodes that run in a turn, and a way to cancel all of them.

All limits in a turn share one timer: a timer for each node would take longer than most nodes run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Limits:
    """The limits of all running nodes. An instance belongs to one event loop."""

    def __init__(self) -> None:
        self._running: list[Limit] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """The time at which the timer fires, on the loop's clock."""

    def limit(self, seconds: float | None) -> Limit:
        """Create a limit of ``seconds``, or without a time limit if None. `end_all` ends both kinds."""
        return Limit(self, seconds)

    def end_all(self) -> None:
        """End everything that is running."""
        for limit in self._running:
            limit.end()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, math.inf

    def enter(self, limit: Limit) -> None:
        """Start to watch a limit."""
        self._running.append(limit)
        self.watch(limit.due)

    def leave(self, limit: Limit) -> None:
        """Stop watching a limit. The timer keeps running for the next node."""
        self._running.remove(limit)

    def watch(self, due: float) -> None:
        """Make sure that the timer fires no later than ``due``."""
        if due < self._due:
            self.close()
            self._due = due
            self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        now = asyncio.get_running_loop().time()
        self.close()
        for limit in self._running:
            if limit.due <= now:
                limit.end()
        self.watch(min((limit.due for limit in self._running), default=math.inf))


class Limit:
    """A context manager that raises TimeoutError when the time is up or the turn is cancelled.

    As with ``asyncio.timeout``, a cancellation from outside remains a cancellation.
    """

    def __init__(self, limits: Limits, seconds: float | None) -> None:
        self._limits = limits
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._cancels_before = 0
        self.due = math.inf
        """The deadline, on the loop's clock."""
        self.is_over = False
        """Whether the block was ended."""

    def __enter__(self) -> Limit:
        """Start the timer for this limit."""
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
        """Stop the limit. If `end` cancelled the block, raise TimeoutError instead."""
        task, self._task = self._task, None
        self._limits.leave(self)
        if self.is_over and task is not None:
            is_ours = task.uncancel() <= self._cancels_before
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def end(self) -> None:
        """Cancel the code inside the block."""
        if self._task is not None and not self.is_over:
            self.is_over = True
            self.due = math.inf
            self._task.cancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time spent inside this block."""
        loop = asyncio.get_running_loop()
        remaining_s, self.due = self.due - loop.time(), math.inf
        try:
            yield
        finally:
            if not self.is_over:
                self.due = loop.time() + remaining_s
                self._limits.watch(self.due)
