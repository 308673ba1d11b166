"""One long conversation: the costs of a turn late in it, compared with early turns of the same run.

``python -m benchmarks.conversation [TURNS]`` plays Begin → Message with short questions on SQLite and Redis, and lists
one page of the history at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from benchmarks.model_services import services_of
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.stored_steps import page_checkpoints
from tests.harness.redis_server import redis_server

TURNS = 2000
WINDOW = 100
"""Number of turns over which the processor time is averaged.

The space is averaged over all turns since the previous row: hash tables and files grow in steps, which a short window
may contain or not.
"""
CHECKS = (500, 1000, 2000, 5000, 10_000)
"""Turns before which a row is printed, in addition to the last one."""

CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:A"], "upstream": []},
        "Message:A": {
            "obj": {"component_name": "Message", "params": {"content": ["You asked: {sys.query}"]}},
            "downstream": [],
            "upstream": ["begin"],
        },
    }
}

Size = Callable[[], Awaitable[int]]


@asynccontextmanager
async def open_stores(kind: str) -> AsyncGenerator[tuple[Store, Size]]:
    """Open a store. Yield it with a function that returns its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            path = Path(folder) / "c.db"
            async with open_store(f"sqlite:///{path}", SystemClock()) as store:

                async def file_size() -> int:
                    return path.stat().st_size

                yield store, file_size
            return
        with redis_server() as url:
            client: Any = Redis.from_url(url)
            async with open_store(url, SystemClock()) as store:

                async def used_memory() -> int:
                    return (await client.info("memory"))["used_memory"]

                yield store, used_memory
            await client.aclose()


def memory_mb() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


async def converse(kind: str, turns: int, show: Callable[[str], None]) -> None:
    """Play a conversation and print its costs."""
    canvas = compile_canvas(CANVAS, load_catalog())
    async with open_stores(kind) as (store, size):
        runner = Runner(canvas, services_of(), store=store)
        first: tuple[float, float, float] | None = None
        stored = await size()
        checks = sorted({2 * WINDOW, *(check for check in CHECKS if check < turns), turns})
        done = 0
        for check in checks:
            await _play(runner, done, check - WINDOW)
            cpu = time.process_time()
            await _play(runner, check - WINDOW, check)
            cpu_ms, before, stored = (time.process_time() - cpu) / WINDOW * 1000, stored, await size()
            row = cpu_ms, (stored - before) / (check - done) / 1000, memory_mb()
            done = check
            first = first or row
            ratios = " ".join(f"{now / then:>6.2f}" for now, then in zip(row, first, strict=True))
            show(f"{kind:<7} {check:>6} {row[0]:>8.1f} {row[1]:>8.1f} {row[2]:>8.0f}   {ratios}")
        before, start = memory_mb(), time.perf_counter()
        graph = canvas.with_saver(store.saver)
        await page_checkpoints(graph, store.saver, "c", 0, 1)
        elapsed = (time.perf_counter() - start) * 1000
        show(f"{kind:<7} history, one step: {elapsed:.0f} ms, {memory_mb() - before:+.1f} MB")


async def _play(runner: Runner, start: int, stop: int) -> None:
    for number in range(start, stop):
        async for _ in runner.start("c", {"query": f"Question number {number:>8} of this conversation"}):
            pass


async def main(turns: int, kinds: list[str]) -> None:
    """Print the table."""
    print("store    turns  ms/turn  kB/turn       MB   ratios to the first row")
    for kind in kinds:
        await converse(kind, turns, print)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversation", description="One long conversation.")
    parser.add_argument("turns", type=int, nargs="?", default=TURNS)
    parser.add_argument("stores", nargs="*", metavar="STORE", default=["sqlite", "redis"], help="sqlite, redis")
    given = parser.parse_args()
    if not {"sqlite", "redis"}.issuperset(given.stores):
        parser.error("a store is sqlite or redis")
    asyncio.run(main(given.turns, given.stores))
