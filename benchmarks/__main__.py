"""Run all benchmarks and print a table. Every ratio compares pairs that were measured consecutively in the same run."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from benchmarks import agents, by_hand, canvases, regions
from benchmarks.model_services import services_of
from benchmarks.searches import print_searches
from benchmarks.stores import print_stores
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.services.chat import ChatDelta, ChatRequest

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


class _TimedModel:
    """A model that records when it sends each piece."""

    context_tokens = 8192
    has_vision = False

    def __init__(self) -> None:
        self.sent: list[float] = []

    async def complete(self, request: ChatRequest) -> str:
        return ""

    async def stream(self, request: ChatRequest) -> Any:
        for index in range(200):
            await asyncio.sleep(0)
            self.sent.append(time.perf_counter())
            yield ChatDelta(f"word{index} ")


async def _delta_to_event() -> Sequence[float]:
    model = _TimedModel()
    runner = Runner(compile_canvas(canvases.streaming(), CATALOG), services_of(model))
    run = runner.start("bench", {"query": "q"})
    received: list[float] = []
    async for event in run:
        if isinstance(event, Message) and event.content != "> ":
            orjson.dumps(run.envelope.wrap(event))
            received.append(time.perf_counter())
    return [arrival - departure for arrival, departure in zip(received, model.sent, strict=True)]


async def _agent_rows() -> None:
    """Print timings for model rounds and tool calls. The model answers immediately, so only the engine takes time."""
    components = agents.catalog()
    for name, rounds, width in (("agent, 40 rounds of 1 call", 40, 1), ("agent, 4 rounds of 50 calls", 4, 50)):
        model = agents.CallingModel(rounds, width)
        runner = Runner(compile_canvas(agents.agent(rounds), components), services_of(model))
        graph = agents.agent_by_hand(model)

        async def ours(runner: Runner = runner) -> None:
            run = runner.start("bench", {"query": "q"})
            async for event in run:
                orjson.dumps(run.envelope.wrap(event))
            assert run.answer.endswith("done"), run.error

        async def theirs(graph: Any = graph) -> None:
            await graph.ainvoke({"messages": [("user", "q")]}, {"recursion_limit": 1000})

        mine, hand, ratio = await _pairs(ours, theirs)
        print(f"{name:<40} {mine * 1000:>9.1f} {hand * 1000:>12.1f} {ratio:>7.2f}")


async def _first_delta_ms() -> float:
    """Return the median time from the start of a turn to the first piece from a model that answers immediately."""
    runner = Runner(compile_canvas(canvases.streaming(), CATALOG), services_of(_TimedModel()))
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run = runner.start("bench", {"query": "q"})
        async for event in run:
            if isinstance(event, Message) and event.content != "> ":
                times.append(time.perf_counter() - start)
                break
    return statistics.median(times) * 1000


async def _round_ms(document: Mapping[str, Any], query: str, rounds: int) -> float:
    """Return the median time per round over three turns, with all events encoded as JSON."""
    runner = Runner(compile_canvas(document, CATALOG), services_of())
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        run = runner.start("bench", {"query": query})
        async for event in run:
            orjson.dumps(run.envelope.wrap(event))
        assert run.status == "succeeded", run.error
        times.append(time.perf_counter() - start)
    return statistics.median(times) / rounds * 1000


async def _first_event() -> float:
    runner = Runner(compile_canvas(canvases.chain(100), CATALOG), services_of())
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run = runner.start("bench", {"query": "q"})
        async for _event in run:
            times.append(time.perf_counter() - start)
            break
    return statistics.median(times)


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


def _attach_ms() -> float:
    from langgraph.checkpoint.memory import InMemorySaver

    canvas, saver = compile_canvas(canvases.chain(100), CATALOG), InMemorySaver()
    times: list[float] = []
    for _ in range(50):
        start = time.perf_counter()
        canvas.with_saver(saver)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


async def _main() -> None:
    print("canvas against the same graph by hand      ours ms   by hand ms   ratio")
    rows: list[tuple[str, Any, Any]] = [
        *((f"chain of {n}", canvases.chain(n), by_hand.chain(n)) for n in (10, 100, 400)),
        *((f"fan-out {n} wide + join", canvases.fan_out(n), by_hand.fan_out(n)) for n in (10, 100)),
        ("loop of 200 rounds", regions.loop(200), regions.loop_by_hand(200)),
        ("conditional chain of 50", canvases.conditional_chain(50), by_hand.conditional_chain(50)),
    ]
    for name, document, graph in rows:
        ours, theirs, ratio = await _pairs(_ours(document), _theirs(graph))
        print(f"{name:<40} {ours * 1000:>9.1f} {theirs * 1000:>12.1f} {ratio:>7.2f}")
    await _agent_rows()
    for name, document, query, rounds in (
        ("loop, ms a round of 10,000", regions.loop(10_000), "q", 10_000),
        ("iteration, ms a round of 200", regions.iteration(), " ".join(map(str, range(200))), 200),
        ("nested 20 x 20, ms a round", regions.nested(20, 20), "q", 420),
    ):
        print(f"{name:<40} {await _round_ms(document, query, rounds):>9.3f}")
    for size in (10, 100, 400):
        ours, theirs = _compile_ms(size)
        print(f"{f'compile {size} components':<40} {ours:>9.1f} {theirs:>12.1f} {ours / theirs:>7.2f}")
    print(f"{'attach a saver to a compiled canvas':<40} {_attach_ms():>9.2f}")
    print(f"{'first event of a chain of 100':<40} {await _first_event() * 1000:>9.2f}")
    print(f"{'first delta of a model, from the start':<40} {await _first_delta_ms():>9.2f}")
    delays = sorted(await _delta_to_event())
    print(f"{'model delta to JSON event, median':<40} {delays[len(delays) // 2] * 1000:>9.3f}")
    print(f"{'model delta to JSON event, worst of 200':<40} {delays[-1] * 1000:>9.3f}")
    await print_stores(services_of(), print)
    await print_searches(services_of(), print)


if __name__ == "__main__":
    asyncio.run(_main())
