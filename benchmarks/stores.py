"""Store costs: time per node compared with LangGraph's savers, bytes, late resumes, waiting sessions."""

from __future__ import annotations

import asyncio
import gc
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import by_hand, canvases, regions
from benchmarks.durability import open_bare
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.services import Services
from tests.harness.redis_server import redis_server

NODES, ROUNDS = 20, 9


async def _per_node(canvas_saver: Any, bare: Any) -> tuple[float, float]:
    """Return the milliseconds per node in a 20-node chain with sync durability, for our saver and LangGraph's saver."""
    graph = by_hand.chain(NODES)
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(ROUNDS + 1):
        for name, saver in (("ours", canvas_saver), ("bare", bare)):
            stored_graph = graph.copy(update={"checkpointer": saver})
            config = {"configurable": {"thread_id": f"bench-{name}-{number}"}, "recursion_limit": 1000}
            start = time.perf_counter()
            await stored_graph.ainvoke({"outputs": {"x": "y" * 100}}, config, durability="sync")
            times[name].append((time.perf_counter() - start) / NODES * 1000)
    return statistics.median(times["ours"][1:]), statistics.median(times["bare"][1:])


async def _resume_ms(services: Services, store: Any) -> float:
    """Return the milliseconds needed to answer a form in round 998 of a Loop and finish the turn."""
    runner = Runner(compile_canvas(regions.pausing_loop(1000, 998), load_catalog()), services, store=store)
    async for _ in runner.start("late", {"query": "q"}):
        pass
    start = time.perf_counter()
    async for _ in runner.resume("late", {"w": "x"}):
        pass
    return (time.perf_counter() - start) * 1000


async def _waiting_kib(services: Services, sessions: int) -> float:
    """Return the memory per session in KiB for many waiting sessions in one process."""
    runner = Runner(compile_canvas(regions.pausing_loop(3, 0), load_catalog()), services)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(sessions):
        async for _ in runner.start(f"waiting-{number}", {"query": "q"}):
            pass
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / sessions


async def _sqlite_bytes(services: Services, folder: str, name: str, document: Any, query: str) -> int:
    path = Path(folder) / f"{name}.db"
    async with open_store(f"sqlite:///{path}", SystemClock()) as store:
        async for _ in Runner(compile_canvas(document, load_catalog()), services, store=store).start(
            "s", {"query": query}
        ):
            pass
    return path.stat().st_size


_ENCODE = """
import resource, time
from ragflow_lg.checkpoints.values.encoding import Encoder

Encoder().encode({"a": [1]}, "t", {})
value = {"a": [1] * 1_000_000}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
Encoder().encode(value, "t", {})
print((time.process_time() - began) * 1000, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024)
"""


def _large_list() -> tuple[float, float]:
    """Return the milliseconds and the peak of memory in MiB for encoding a list whose JSON has 2 MB."""
    result = subprocess.run([sys.executable, "-c", _ENCODE], capture_output=True, check=True, text=True)
    milliseconds, mebibytes = result.stdout.split()
    return float(milliseconds), float(mebibytes)


async def print_stores(services: Services, show: Callable[[str], None]) -> None:
    """Print all measurements."""
    with tempfile.TemporaryDirectory() as folder, redis_server() as url:
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/bench.db", "redis": url}
        for name, store_url in urls.items():
            async with open_store(store_url, SystemClock()) as store, open_bare(store_url, folder) as saver:
                ours, bare = await _per_node(store.saver, saver)
                show(f"{f'{name}, ms a node, sync':<40} {ours:>9.2f} {bare:>12.2f} {ours / bare:>7.2f}")
        for name, store_url in urls.items():
            async with open_store(store_url, SystemClock()) as store:
                late = await _resume_ms(services, store)
            show(f"{f'{name}, resume in round 998 of 1,000, ms':<40} {late:>9.1f}")
        big = await _sqlite_bytes(services, folder, "big", canvases.heavy(50, 2000), "q")
        show(f"{'50 steps of 2 KB in SQLite, kB':<40} {big / 1000:>9.0f}")
        for items in (500, 1000, 2000):
            query = " ".join(str(i) for i in range(items))
            size = await _sqlite_bytes(services, folder, f"i{items}", regions.iteration(), query)
            show(f"{f'Iteration over {items:,} items in SQLite, kB':<40} {size / 1000:>9.0f}")
    milliseconds, mebibytes = _large_list()
    show(f"{'a list of 2 MB: encoding, ms; peak, MiB':<40} {milliseconds:>9.1f} {mebibytes:>12.1f}")
    show(f"{'1,000 waiting sessions, KiB each':<40} {await _waiting_kib(services, 1000):>9.1f}")


if __name__ == "__main__":
    from benchmarks.model_services import services_of

    asyncio.run(print_stores(services_of(), print))
