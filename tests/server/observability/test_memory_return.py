"""Freed memory that goes back to the operating system."""

import subprocess
import sys

import pytest

from ragflow_lg.server.observability.memory_return import GarbageCollection, find_trim

PROGRAM = """
import asyncio, gc, sys
from ragflow_lg.server.observability import memory_return
from ragflow_lg.server.observability.memory_return import read_resident_bytes, returning_memory
memory_return.INTERVAL_S = 0.1
gc.set_threshold(100_000)  # as the server does

async def main():
    async with returning_memory():
        await asyncio.sleep(0.05)
        start = read_resident_bytes()
        blocks = [bytearray(100_000) for _ in range(1000)]
        kept = blocks[::100]
        if sys.argv[1] == "cycles":  # as exceptions and tasks form them
            for block in blocks:
                cycle = [block]
                cycle.append(cycle)
        full = read_resident_bytes()
        blocks = block = cycle = None
        await asyncio.sleep(1)
        print(full - start, read_resident_bytes() - start)

asyncio.run(main())
"""


@pytest.mark.skipif(find_trim() is None, reason="needs glibc")
@pytest.mark.parametrize("held_by", ["nothing", "cycles"])
def test_freed_memory_is_returned(held_by: str):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, held_by], capture_output=True, text=True, timeout=60, check=True
    )
    full, after = map(int, done.stdout.split())
    assert full > 90_000_000
    assert after < 20_000_000


class Process:
    """A process with clocks, in which a collection takes a quarter of a second."""

    def __init__(self) -> None:
        self.now = 100.0
        self.used = 0.0
        self.collections: list[float] = []
        self.garbage = GarbageCollection(self.collect, lambda: self.now, lambda: self.used)

    def collect(self) -> None:
        self.collections.append(self.now)
        self.now += 0.25
        self.used += 0.25

    def look(self, until: float, share: float, *, is_large: bool = True) -> None:
        """Look for garbage every two seconds, while the process uses a share of a processor."""
        while self.now < until:
            self.garbage.run(is_large=is_large)
            self.now += 2.0
            self.used += 2.0 * share


def test_slow_collections_are_rare_in_a_busy_process() -> None:
    process = Process()
    process.look(200.0, share=0.8)
    assert process.collections == [100.0, 150.25]


def test_an_idle_process_collects_the_garbage_of_its_work_once() -> None:
    process = Process()
    process.look(110.0, share=0.8)
    process.look(149.0, share=0.01)
    assert process.collections == [100.0, 112.25]


def test_a_process_with_little_work_collects_garbage_rarely() -> None:
    process = Process()
    process.look(149.0, share=0.01)
    assert process.collections == [100.0]


def test_a_process_that_has_grown_little_does_not_collect_garbage_because_it_is_idle() -> None:
    process = Process()
    process.look(110.0, share=0.8, is_large=False)
    process.look(149.0, share=0.01, is_large=False)
    assert process.collections == [100.0]
