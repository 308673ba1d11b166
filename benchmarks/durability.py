"""Runs with a session store, for each durability, and the same graphs by hand with LangGraph's saver in ``sync``.

``python -m benchmarks.durability`` prints milliseconds and ratios of pairs in one run: elapsed and processor time.
Graphs in a file or in Redis are also compared with the same graphs in memory, by hand and ours. Words choose stores
(memory, sqlite, redis) and graphs (chain, loop, model): ``python -m benchmarks.durability sqlite model``.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, TypeVar, get_args

import orjson
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from benchmarks import by_hand, canvases
from benchmarks.model_services import services_of
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from ragflow_lg.services.sessions import Durability
from tests.harness.redis_server import redis_server

ROUNDS = 7
SHORT_ROUNDS = 41
"""For a turn of a few milliseconds."""
_NUMBERS = count()

_REFERENCES = ("by hand", "hand mem", "ours mem")
"""What times are compared with: the graph by hand with the same kind of store, and in memory, and ours in memory."""

_T = TypeVar("_T")

Play = Callable[[str], Awaitable[object]]
"""Runs a graph in a new session."""


@asynccontextmanager
async def open_bare(url: str, folder: str) -> AsyncGenerator[Any]:
    """Yield LangGraph's saver for the same kind of store."""
    if url.startswith("sqlite"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(f"{folder}/bare.db") as saver:
            yield saver
    elif url.startswith("redis"):
        from langgraph.checkpoint.redis.aio import AsyncRedisSaver

        async with AsyncRedisSaver.from_conn_string(url, checkpoint_prefix="bare", ttl={"default_ttl": 60}) as saver:
            yield saver
    else:
        from langgraph.checkpoint.memory import InMemorySaver

        yield InMemorySaver()


class _Turn(TypedDict, total=False):
    query: str
    answer: str
    shown: str


def _turn_by_hand() -> Any:
    """Return a graph with a model that answers at once, and a node that shows its answer."""

    async def ask(state: _Turn) -> _Turn:
        return {"answer": "hello"}

    async def show(state: _Turn) -> _Turn:
        return {"shown": state.get("answer", "")}

    builder = StateGraph(_Turn)
    builder.add_node("ask", ask)
    builder.add_node("show", show)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "show")
    return builder.compile()


class _FastModel:
    """A model that answers at once."""

    context_tokens = 8192
    has_vision = False

    async def complete(self, request: ChatRequest) -> str:
        return "hello"

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        yield ChatDelta("hello")


WORKLOADS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "chain of 100": (canvases.chain(100), lambda: by_hand.chain(100)),
    "loop of 200": (canvases.loop(200), lambda: by_hand.loop(200)),
    "model, message": (canvases.streaming(), _turn_by_hand),
}


def _ours(document: Any, store: Any) -> Play:
    runner = Runner(compile_canvas(document, load_catalog()), services_of(_FastModel()), store=store)

    async def play(session: str) -> None:
        run = runner.start(session, {"query": "q"})
        async for event in run:
            orjson.dumps(run.envelope.wrap(event))
        assert run.status == "succeeded", run.error

    return play


def _theirs(graph: Any, saver: Any) -> Play:
    stored = graph.copy(update={"checkpointer": saver})

    async def play(session: str) -> None:
        config = {"configurable": {"thread_id": session}, "recursion_limit": 1000}
        await stored.ainvoke({"outputs": {}, "query": "q"}, config, durability="sync")

    return play


async def _measure(plays: dict[str, Play], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return the elapsed and the processor milliseconds of each way to run, measured alternately after a warm-up."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in plays}
    for number in range(rounds + 2):
        for name, play in plays.items():
            elapsed, processor = time.perf_counter(), time.process_time()
            await play(f"{name}-{next(_NUMBERS)}")
            if number >= 2:
                times[name][0].append((time.perf_counter() - elapsed) * 1000)
                times[name][1].append((time.process_time() - processor) * 1000)
    return times


async def print_durability(show: Callable[[str], None], chosen: Collection[str]) -> None:
    """Print the measurements of the chosen stores and graphs, by default of all."""
    heads = "".join(f"{name:>12}" for name in ("ms", *(f"/ {name}" for name in _REFERENCES)))
    show(f"{'milliseconds, and ratios to references':<44} {heads}")
    with tempfile.TemporaryDirectory() as folder, redis_server() as url:
        urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/b.db", "redis": url}
        for name, store_url in _choose(urls, chosen).items():
            async with AsyncExitStack() as stack:
                stores = {
                    durability: await stack.enter_async_context(open_store(store_url, durability=durability))
                    for durability in get_args(Durability)
                }
                bare = await stack.enter_async_context(open_bare(store_url, folder))
                memory = await stack.enter_async_context(open_store("memory://"))
                bare_memory = await stack.enter_async_context(open_bare("memory://", folder))
                for workload, (document, graph) in _choose(WORKLOADS, chosen).items():
                    plays = {"by hand": _theirs(graph(), bare)}
                    if name != "memory":
                        plays |= {"hand mem": _theirs(graph(), bare_memory), "ours mem": _ours(document, memory)}
                    plays |= {durability: _ours(document, store) for durability, store in stores.items()}
                    times = await _measure(plays, SHORT_ROUNDS if workload == "model, message" else ROUNDS)
                    for way in ("by hand", *stores):
                        for index, time_name in enumerate(("elapsed", "processor")):
                            columns = _columns({name: of_way[index] for name, of_way in times.items()}, way)
                            show(f"{f'{name}, {workload}, {way}, {time_name}':<44} {columns}")


def _choose(all_: Mapping[str, _T], chosen: Collection[str]) -> Mapping[str, _T]:
    """Return the entries whose names begin with a chosen word, or all if there are none."""
    return {name: entry for name, entry in all_.items() if name.startswith(tuple(chosen))} or all_


def _columns(times: Mapping[str, list[float]], way: str) -> str:
    """Return the median time of a way to run, and the median ratios of the times to those of each reference."""
    own = times[way]
    ratios = [
        f"{statistics.median(a / b for a, b in zip(own, times[name], strict=True)):.2f}" if name in times else ""
        for name in _REFERENCES
    ]
    return "".join(f"{column:>12}" for column in (f"{statistics.median(own):.1f}", *ratios))


if __name__ == "__main__":
    asyncio.run(print_durability(print, sys.argv[1:]))
