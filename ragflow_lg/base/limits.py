"""Time limits for the nodes that run in a turn, and a way to cancel all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Limits:
    """The limits of all running nodes. An instance belongs to one event loop."""

    def __init__(self) -> None:
        self.running: list[Limit] = []

    def limit(self, seconds: float | None) -> Limit:
        """Create a limit of ``seconds``, or without a time limit if None. `end_all` ends both kinds."""
        return Limit(self, seconds)

    def end_all(self) -> None:
        """End everything that is running."""
        for limit in self.running:
            limit.end()


class Limit:
    """A context manager that raises TimeoutError when the time is up or the turn is cancelled.

    As with ``asyncio.timeout``, a cancellation from outside remains a cancellation.
    """

    def __init__(self, limits: Limits, seconds: float | None) -> None:
        self._limits = limits
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._cancels_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False
        """Whether the block was ended."""

    def __enter__(self) -> Limit:
        """Start the timer for this limit."""
        task = self._task = asyncio.current_task()
        assert task is not None
        self._cancels_before = task.cancelling()
        self._start(self._seconds)
        self._limits.running.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the limit. If `end` cancelled the block, raise TimeoutError instead."""
        task, self._task = self._task, None
        self._stop()
        self._limits.running.remove(self)
        if self.is_over and task is not None:
            is_ours = task.uncancel() <= self._cancels_before
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def end(self) -> None:
        """Cancel the code inside the block."""
        if self._task is not None and not self.is_over:
            self.is_over = True
            self._stop()
            self._task.cancel()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time spent inside this block."""
        left_s = self._timer.when() - asyncio.get_running_loop().time() if self._timer is not None else None
        self._stop()
        try:
            yield
        finally:
            if not self.is_over:
                self._start(left_s)

    def _start(self, seconds: float | None) -> None:
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
