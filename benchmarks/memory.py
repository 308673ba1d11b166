"""Memory: ``python -m benchmarks.memory [ENTRIES]``. Searches in 10,000 entries about one user, for each store."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from langgraph.store.base import PutOp

from ragflow_lg.adapters.knowledge.endpoint_embedder import HashingEmbedder
from ragflow_lg.adapters.memories.memory_layout import FIELD, memory_namespace
from ragflow_lg.adapters.memories.memory_settings import MemorySettings
from ragflow_lg.adapters.memories.memory_shelf import MemoryShelf
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.checkpoints import open_items
from tests.harness.redis_server import redis_server

ENTRIES = 10_000
SEARCHES = 50
_BATCH = 500
_WORDS = ["tea", "coffee", "train", "boat", "Oslo", "Rome", "cat", "dog", "green", "black", "Monday", "likes"]


def _sentence(source: random.Random) -> str:
    return "The user " + " ".join(source.choices(_WORDS, k=12)) + f" {source.randrange(10_000)}."


async def _embed(texts: list[str]) -> Sequence[Sequence[float]]:
    return await HashingEmbedder().embed_chunks(texts)


async def _measure(name: str, url: str, count: int) -> None:
    source = random.Random(1)
    namespace = memory_namespace("m", "default", "anna")
    async with open_items(url, SystemClock(), _embed, fields=[FIELD], prefix="benchmark:") as store:
        began = time.perf_counter()
        for start in range(0, count, _BATCH):
            puts = [
                PutOp(namespace, str(number), {"type": "semantic", FIELD: _sentence(source), "user": "anna"})
                for number in range(start, start + _BATCH)
            ]
            await store.abatch(puts)
        stored_s = time.perf_counter() - began
        shelf = MemoryShelf(MemorySettings("m"), store, store, compares_words=True)
        times: list[float] = []
        for _ in range(SEARCHES):
            question = _sentence(source)
            began = time.perf_counter()
            found = await shelf.search(namespace, question, 8, 0.5, time.monotonic())
            times.append((time.perf_counter() - began) * 1000)
            if not found:
                raise SystemExit(f"{name}: nothing was found.")
    p95 = sorted(times)[int(len(times) * 0.95) - 1]
    sys.stdout.write(
        f"{name:<8} {count:,} entries stored in {stored_s:.1f} s; search p50 {statistics.median(times):.1f} ms, "
        f"p95 {p95:.1f} ms\n"
    )


async def _main(count: int, redis_url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await _measure("sqlite", f"sqlite:///{folder}/items.db", count)
        await _measure("redis", redis_url, count)
        await _measure("memory", "memory://", count)


if __name__ == "__main__":
    with redis_server() as url:
        asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES, url))
