"""Returns freed memory to the operating system.

The C library keeps freed memory for later. After a few large requests that would be hundreds of megabytes.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path

from ragflow_lg.base.tasks import running

MMAP_BYTES = 256 * 1024
"""Blocks from this size on are returned as soon as they are freed. By default, the C library raises this size."""
GROWTH_BYTES = 16 * 1024 * 1024
"""Memory is trimmed while the process has this much more than at its start."""
LARGE_GROWTH_BYTES = 4 * GROWTH_BYTES
"""An idle process with so much more memory than at its start collects garbage sooner."""
INTERVAL_S = 2.0
MAX_INTERVAL_S = 8.0
"""The interval after trimming that returned little."""
COLLECTING_SHARE = 1 / 200
"""The share of the time that collecting garbage may take, since nothing else runs meanwhile."""
IDLE_SHARE = 1 / 10
"""A process that uses less of a processor is idle: a collection delays almost nobody."""
IDLE_COLLECTING_SHARE = 1 / 4
"""The share of the time before that collecting garbage may take in an idle process, but not of the time it was idle."""
_MMAP_THRESHOLD = -3
"""The number of the option in ``mallopt``."""
_STATM = Path("/proc/self/statm")


def returning_memory() -> AbstractAsyncContextManager[None]:
    """Return freed memory during the block. This does nothing unless the C library is glibc."""
    trim = find_trim()
    return nullcontext() if trim is None else running(partial(_return_memory, trim), "return memory")


def find_trim() -> Callable[[], object] | None:
    """Make large blocks be returned at once; return a function that returns all freed memory, or None."""
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, MMAP_BYTES)
        trim = library.malloc_trim
        read_resident_bytes()
    except (OSError, AttributeError, TypeError):  # another system, or another library
        return None
    return lambda: trim(0)


def read_resident_bytes() -> int:
    """Return how much memory the process has."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class GarbageCollection:
    """Collects large values in cycles. By itself, the collector runs after many objects, no matter how large."""

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        clock: Callable[[], float] = time.monotonic,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Initialize. ``collect`` collects all garbage. The clocks return seconds, of time and of processor time."""
        self._collect = collect
        self._clock = clock
        self._processor_clock = processor_clock
        self._next = 0.0
        self._last, self._last_used = clock(), processor_clock()
        """The times of the last look."""
        self._unused_s = 0.0
        """How much processor time the process has to use before a collection while it is idle."""

    def run(self, *, is_large: bool) -> None:
        """Collect garbage, unless that has taken more than its share of the time.

        With a million objects of turns, one collection stops every stream for a third of a second. The last turns
        before a pause may leave hundreds of megabytes: if the process ``is_large`` and idle, it collects them once.
        """
        started, used = self._clock(), self._processor_clock()
        is_idle = used - self._last_used < (started - self._last) * IDLE_SHARE
        self._unused_s -= used - self._last_used
        self._last, self._last_used = started, used
        if started < self._next and not (is_large and is_idle and self._unused_s <= 0):
            return
        self._collect()
        self._last, self._last_used = self._clock(), self._processor_clock()
        duration_s = self._last - started
        self._next = self._last + duration_s / COLLECTING_SHARE
        self._unused_s = duration_s / IDLE_COLLECTING_SHARE


async def _return_memory(trim: Callable[[], object]) -> None:
    at_start, interval_s, garbage = read_resident_bytes(), INTERVAL_S, GarbageCollection()
    while True:
        await asyncio.sleep(interval_s)
        before = read_resident_bytes()
        if before < at_start + GROWTH_BYTES:
            interval_s = INTERVAL_S
            continue
        garbage.run(is_large=before >= at_start + LARGE_GROWTH_BYTES)
        await asyncio.to_thread(trim)  # without the interpreter's lock
        has_returned = before - read_resident_bytes() > GROWTH_BYTES // 4
        interval_s = INTERVAL_S if has_returned else min(2 * interval_s, MAX_INTERVAL_S)
