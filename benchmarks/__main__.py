"""Compare graphs in memory with the same graphs by hand: every ratio is the median of pairs of one run."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from benchmarks import by_hand, canvases
from benchmarks.model_services import services_of
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner

ROUNDS = 15
CATALOG = load_catalog()


def _ours(document: Mapping[str, Any]) -> Callable[[], Awaitable[None]]:
    """Return a function that runs a canvas and encodes all events as JSON."""
    runner = Runner(compile_canvas(document, CATALOG), services_of())

    async def play() -> None:
        run = runner.start("bench", {"query": "q"})
        async for event in run:
            orjson.dumps(run.envelope.wrap(event))
        assert run.status == "succeeded", run.error

    return play


def _theirs(graph: Any) -> Callable[[], Awaitable[None]]:
    async def play() -> None:
        await graph.ainvoke({"outputs": {}}, {"recursion_limit": 10_000})

    return play


async def _pairs(
    ours: Callable[[], Awaitable[None]], theirs: Callable[[], Awaitable[None]]
) -> tuple[float, float, float]:
    """Return both medians in seconds and the median of the pairwise ratios, measured alternately after a warm-up."""
    a: list[float] = []
    b: list[float] = []
    for _ in range(ROUNDS + 2):
        for play, times in ((theirs, b), (ours, a)):
            start = time.perf_counter()
            await play()
            times.append(time.perf_counter() - start)
    ratio = statistics.median(x / y for x, y in zip(a[2:], b[2:], strict=True))
    return statistics.median(a[2:]), statistics.median(b[2:]), ratio


def _compile_ms(size: int) -> tuple[float, float]:
    """Return the median compile times for a canvas and for the same graph written by hand."""
    document = canvases.chain(size)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(7):
        for compile_graph, times in (
            (lambda: compile_canvas(document, CATALOG), ours),
            (lambda: by_hand.chain(size), theirs),
        ):
            start = time.perf_counter()
            compile_graph()
            times.append(time.perf_counter() - start)
    return statistics.median(ours) * 1000, statistics.median(theirs) * 1000


async def _main() -> None:
    print("canvas against the same graph by hand      ours ms   by hand ms   ratio")
    rows: list[tuple[str, Any, Any]] = [
        ("chain of 100", canvases.chain(100), by_hand.chain(100)),
        ("fan-out of 100", canvases.fan_out(100), by_hand.fan_out(100)),
        ("loop of 200 rounds", canvases.loop(200), by_hand.loop(200)),
    ]
    for name, document, graph in rows:
        ours, theirs, ratio = await _pairs(_ours(document), _theirs(graph))
        print(f"{name:<40} {ours * 1000:>9.1f} {theirs * 1000:>12.1f} {ratio:>7.2f}")
    mine, others = _compile_ms(100)
    print(f"{'compile 100 components':<40} {mine:>9.1f} {others:>12.1f} {mine / others:>7.2f}")


if __name__ == "__main__":
    asyncio.run(_main())
