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


def test_slow_collections_are_rare() -> None:
    times: list[float] = []
    now = 100.0

    def collect() -> None:
        nonlocal now
        times.append(now)
        now += 0.25

    garbage = GarbageCollection(collect, lambda: now)
    while now < 200.0:
        garbage.run()
        now += 2.0
    assert times == [100.0, 150.25]
