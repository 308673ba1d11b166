"""Frames per second for followed runs, and memory use of slow followers: ``python -m benchmarks.streaming``.

The baseline is the same run in the same process without followers, with each event written as JSON.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import orjson

from benchmarks import canvases
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.system_services import InlineFiles, RandomIds, SystemClock
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.server.streaming.journal import Journal
from ragflow_lg.server.streaming.open_journal import open_journal
from ragflow_lg.server.streaming.run_manager import RunManager
from ragflow_lg.server.streaming.run_task import CONTINUE, RunSpec
from ragflow_lg.server.streaming.sse import ragflow_frame
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from ragflow_lg.services.services import Services
from tests.harness.redis_server import redis_server

PIECES = 2000
ROUNDS = 3
SLOW = 500


class _FastModel:
    """A model that streams many pieces as fast as possible."""

    context_tokens = 8192
    has_vision = False

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.pause_s = 0.0

    async def complete(self, request: ChatRequest) -> str:
        return ""

    async def stream(self, request: ChatRequest) -> Any:
        for index in range(PIECES if not self.pause_s else 200):
            await asyncio.sleep(self.pause_s)
            self.sent.append(time.perf_counter())
            yield ChatDelta(f"word{index} ")

    def model(self, llm_id: str) -> Any:
        return self


def _runner(model_: _FastModel) -> Runner:
    services = Services(model_, GuardedHttpClient(), InlineFiles(), SystemClock(), RandomIds())
    return Runner(compile_canvas(canvases.streaming(), load_catalog()), services)


async def _direct() -> tuple[int, float]:
    run = _runner(_FastModel()).start("bench", {"query": "q"})
    start, count = time.perf_counter(), 0
    async for event in run:
        orjson.dumps(run.envelope.wrap(event))
        count += 1
    return count, time.perf_counter() - start


def _frame(run: Run, event: Any) -> bytes:
    return ragflow_frame(run.envelope.wrap(event))


async def _follow(journal: Journal, followers: int, *, elsewhere: Journal | None = None) -> tuple[int, float]:
    """Execute a run through a run manager; return the total number of frames for all followers and the seconds."""
    run_manager = RunManager(journal)
    other = RunManager(elsewhere) if elsewhere is not None else run_manager
    run = _runner(_FastModel()).start("bench", {"query": "q"})
    start = time.perf_counter()
    run_id = await run_manager.start(RunSpec(run, CONTINUE))

    async def follow() -> int:
        count = 0
        async with aclosing(other.follow(run_id)) as events:
            async for _, event in events:
                _frame(run, event)
                count += 1
        return count

    counts = await asyncio.gather(*(follow() for _ in range(followers)))
    elapsed = time.perf_counter() - start
    assert len(set(counts)) == 1
    await other.aclose()
    await run_manager.aclose()
    return sum(counts), elapsed


async def _delay(journal: Journal, elsewhere: Journal) -> float:
    """Return the median milliseconds from a model piece to its frame, at 1,000 pieces per second."""
    run_manager, other, model_ = RunManager(journal), RunManager(elsewhere), _FastModel()
    model_.pause_s = 0.001
    run = _runner(model_).start("bench", {"query": "q"})
    run_id = await run_manager.start(RunSpec(run, CONTINUE))
    received: list[float] = []
    async with aclosing((run_manager if journal is elsewhere else other).follow(run_id)) as events:
        async for _, event in events:
            frame = _frame(run, event)
            if b'"word' in frame and b'"message"' in frame:
                received.append(time.perf_counter())
    await other.aclose()
    await run_manager.aclose()
    return (
        statistics.median(arrival - departure for arrival, departure in zip(received, model_.sent, strict=False)) * 1000
    )


async def _slow(journal: Journal) -> tuple[float, float, int]:
    """Stop many followers after their first event; return MiB of journal and followers, and lost events."""
    run_manager = RunManager(journal)
    run = _runner(_FastModel()).start("bench", {"query": "q"})
    tracemalloc.start()
    run_id = await run_manager.start(RunSpec(run, CONTINUE))
    async with aclosing(run_manager.follow(run_id)) as events:
        count = len([number async for number, _ in events])
    alone = tracemalloc.get_traced_memory()[0]
    followers = [run_manager.follow(run_id) for _ in range(SLOW)]
    firsts = [(await anext(follower))[0] for follower in followers]
    total = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    lost = 0
    for follower, first in zip(followers[::25], firsts[::25], strict=True):
        lost += count - first - len([number async for number, _ in follower])
    for follower in followers:
        await follower.aclose()
    await run_manager.aclose()
    return alone / 2**20, (total - alone) / 2**20, lost


@asynccontextmanager
async def _journals() -> AsyncGenerator[dict[str, tuple[Journal, Journal]]]:
    async with AsyncExitStack() as opened:
        memory = await opened.enter_async_context(open_journal("memory://"))
        journals: dict[str, tuple[Journal, Journal]] = {"memory": (memory, memory)}
        try:
            url = opened.enter_context(redis_server())
        except RagflowLgError as error:
            print(f"without Redis: {error}")
        else:
            here = await opened.enter_async_context(open_journal(url, prefix="bench:"))
            there = await opened.enter_async_context(open_journal(url, prefix="bench:"))
            journals |= {"Redis": (here, here), "Redis, followed on another replica": (here, there)}
        yield journals


async def main() -> None:
    """Print all measurements."""
    async with _journals() as journals:
        for name, (journal, elsewhere) in journals.items():
            away = elsewhere if elsewhere is not journal else None
            for followers in (1, 20):
                rates: list[float] = []
                ratios: list[float] = []
                for _ in range(ROUNDS + 1):
                    _, alone = await _direct()
                    count, elapsed = await _follow(journal, followers, elsewhere=away)
                    rates.append(count / elapsed)
                    ratios.append(elapsed / alone)
                print(
                    f"{f'{name}, {followers} follower(s)':58} {statistics.median(rates[1:]):10,.0f} frames/s  "
                    f"{statistics.median(ratios[1:]):6.2f} x the time of the run iterated over directly"
                )
            print(f"{f'{name}, piece to frame':58} {await _delay(journal, elsewhere):10.2f} ms")
        for name, (journal, _) in list(journals.items())[:2]:
            alone, total, lost = await _slow(journal)
            print(
                f"{f'{name}, {SLOW} followers stopped':58} {total:10.1f} MiB more than {alone:.1f}; {lost} lost events"
            )


if __name__ == "__main__":
    asyncio.run(main())
