"""What encryption costs: ``python -m benchmarks.encryption`` plays turns with and without keys, in turns.

Processor time and bytes of a turn, on every store. Bytes are those of the SQLite file.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks import canvases
from benchmarks.conversation import CANVAS
from benchmarks.model_services import services_of
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.encryption import EncryptionKey
from tests.harness.redis_server import redis_server

ROUNDS = 7
KEYS = (EncryptionKey("bench", b"k" * 32),)
WORKLOADS: dict[str, tuple[dict[str, Any], int]] = {
    "turn of a conversation": (CANVAS, 20),
    "chain of 100 nodes": (canvases.chain(100), 1),
    "50 steps of 2 kB": (canvases.heavy(50, 2000), 1),
}
"""Canvases, and how many turns of them are one measurement."""

_NUMBERS = itertools.count()


async def _measure(store: Store, document: dict[str, Any], turns: int) -> float:
    """Return the processor milliseconds of a turn in a new session."""
    runner = Runner(compile_canvas(document, load_catalog()), services_of(), store=store)
    session = f"s{next(_NUMBERS)}"
    start = time.process_time()
    for number in range(turns):
        async for _ in runner.start(session, {"query": f"Question {number}"}):
            pass
    return (time.process_time() - start) / turns * 1000


async def print_encryption(show: Callable[[str], None]) -> None:
    """Print the costs."""
    show(f"{'processor ms, and bytes':<36} {'plain':>9} {'encrypted':>10} {'ratio':>6} {'bytes':>6}")
    with tempfile.TemporaryDirectory() as folder, redis_server() as redis:
        for workload, (document, turns) in WORKLOADS.items():
            for kind in ("memory", "sqlite", "redis"):
                files = [Path(folder) / f"{next(_NUMBERS)}.db" for _ in range(2)]
                prefixes = ["plain:", "encrypted:"]
                urls = {"memory": ["memory://"] * 2, "sqlite": [f"sqlite:///{file}" for file in files]}
                times: list[list[float]] = [[], []]
                async with AsyncExitStack() as stack:
                    stores = [
                        await stack.enter_async_context(open_store(url, SystemClock(), prefix=prefix, keys=keys))
                        for url, prefix, keys in zip(urls.get(kind, [redis] * 2), prefixes, ((), KEYS), strict=True)
                    ]
                    for _ in range(ROUNDS + 1):
                        for store, measured in zip(stores, times, strict=True):
                            measured.append(await _measure(store, document, turns))
                plain, encrypted = (measured[1:] for measured in times)
                ratio = statistics.median(b / a for a, b in zip(plain, encrypted, strict=True))
                size = f"{files[1].stat().st_size / files[0].stat().st_size:.2f}" if kind == "sqlite" else ""
                row = f"{statistics.median(plain):>9.1f} {statistics.median(encrypted):>10.1f} {ratio:>6.2f} {size:>6}"
                show(f"{f'{kind}, {workload}':<36} {row}")


if __name__ == "__main__":
    asyncio.run(print_encryption(print))
