"""Measures how late the event loop is."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ragflow_lg.base.tasks import running

logger = logging.getLogger(__name__)

BEAT_S = 0.1
"""How often the event loop is measured."""

RECENT_S = 5.0
"""How long after being late the event loop counts as late."""


class LoopWatch:
    """Measures how late the event loop is. If it is later than the limit, that is logged."""

    def __init__(self, limit_s: float, measured: Callable[[float], None], on_late: Callable[[], None]) -> None:
        """Initialize. ``measured`` gets every delay in seconds; ``on_late`` is called after one above the limit."""
        self._limit_s = limit_s
        self._measured = measured
        self._on_late = on_late
        self._due_at = math.inf
        self._late_at = -math.inf

    @property
    def is_late(self) -> bool:
        """Whether the event loop is late, or was recently."""
        now = time.monotonic()
        return now - self._late_at < RECENT_S or now - self._due_at > self._limit_s

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Watch the running event loop during the block."""
        return running(self._watch, "loop watch")

    async def _watch(self) -> None:
        while True:
            self._due_at = time.monotonic() + BEAT_S
            await asyncio.sleep(BEAT_S)
            late_s = max(0.0, time.monotonic() - self._due_at)
            self._measured(late_s)
            if late_s > self._limit_s:
                self._late_at = time.monotonic()
                self._on_late()
                logger.error("the event loop was late by %.1f s", late_s)
