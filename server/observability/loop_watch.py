"""Watches the event loop from another thread, and logs what it is doing when it is late."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ragflow_lg.base.tasks import running

logger = logging.getLogger(__name__)

BEAT_S = 0.05
"""How often the event loop reports that it runs."""

RECENT_S = 5.0
"""How long after being late the event loop counts as late."""

MAX_FRAMES = 12
"""How many of the innermost frames of the loop's thread are logged."""


class LoopWatch:
    """Measures how late the event loop is. If it is later than the limit, its stack is logged, once each time.

    While a single call holds the interpreter's lock, nothing can be logged; the log then shows what follows the call.
    """

    def __init__(self, limit_s: float, on_late: Callable[[], None] = lambda: None) -> None:
        """Initialize. ``on_late`` is called in the watching thread."""
        self._limit_s = limit_s
        self._on_late = on_late
        self._beat_at = math.inf
        self._late_at = -math.inf
        self._is_over = threading.Event()

    @property
    def is_late(self) -> bool:
        """Whether the event loop is late, or was recently."""
        now = time.monotonic()
        return now - self._late_at < RECENT_S or now - self._beat_at > self._limit_s

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Watch the running event loop during the block."""
        self._is_over.clear()
        self._beat_at = time.monotonic()
        arguments = (threading.get_ident(),)
        thread = threading.Thread(target=self._watch, args=arguments, name="loop watch", daemon=True)
        thread.start()
        try:
            async with running(self._beat, "loop watch"):
                yield
        finally:
            self._is_over.set()
            self._beat_at = math.inf
            thread.join()

    async def _beat(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(BEAT_S)

    def _watch(self, loop_thread: int) -> None:
        reported_beat = 0.0
        while not self._is_over.wait(max(BEAT_S, self._limit_s / 4)):
            beat_at = self._beat_at
            late_s = time.monotonic() - beat_at
            if late_s < self._limit_s:
                continue
            self._late_at = time.monotonic()
            if beat_at != reported_beat:
                reported_beat = beat_at
                logger.error("the event loop is late by %.1f s; it runs:\n%s", late_s, _describe_stack(loop_thread))
                self._on_late()


def _describe_stack(thread: int) -> str:
    # No public function returns the frames of other threads.
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    return "".join(traceback.format_stack(frame, MAX_FRAMES)) if frame is not None else "(its thread has ended)"
