"""Checkpoints are those that LangGraph makes, although fewer channels are asked whether they have changed."""

import re
from collections.abc import Mapping
from pprint import pformat
from typing import Annotated, Any, cast
from unittest.mock import Mock

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send
from typing_extensions import TypedDict

from benchmarks import canvases, regions
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine import graph_run, langgraph_channels
from ragflow_lg.engine.graph_run import play
from ragflow_lg.engine.langgraph_channels import channel_kinds, next_id
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.regions import form, out
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.ragflow_lg.engine.test_langgraph_loop import THREAD, State, diamond, speaking

_PAUSE = re.compile(r"\b[0-9a-f]{32}\b")
FORM = {"a": form("x", downstream=["out"]), **out("{a@x} {sys.query}")}


@pytest.mark.parametrize("step", [-1, 0, 1, 20_000])
def test_ids_are_those_of_langgraph(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(step: int) -> str:
        return str(langgraph_ids.uuid6(clock_seq=step))

    monkeypatch.setattr("time.time_ns", Mock(return_value=1_795_876_033_362_057_123))
    for owner in ("random", langgraph_channels.__name__):
        monkeypatch.setattr(f"{owner}.getrandbits", Mock(return_value=2**47 + 5))
    found: list[str] = []
    for make_id in (next_id, make):
        monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
        found += make_id(step), make_id(step)
    assert found[:2] == found[2:]
    assert found[0] < found[1]


def _numbers(versions: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(str(version).partition(".")[0]) for name, version in versions.items()}


def _shown(value: Any) -> str:
    """Return a written value as text, without the ids of pauses."""
    parts = cast("list[Any]", value if isinstance(value, list | tuple) else [value])
    return str([part.value if isinstance(part, Interrupt) else part for part in parts])


async def _checkpoints(saver: InMemorySaver) -> str:
    """Return everything in the checkpoints that two runs have in common, as text."""
    stored = sorted([entry async for entry in saver.alist(None)], key=lambda entry: entry.checkpoint["id"])
    names = {entry.checkpoint["id"]: number for number, entry in enumerate(stored)}
    found: list[Any] = []
    for entry in stored:
        checkpoint: Any = entry.checkpoint
        parent: Any = (entry.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        metadata: Any = {**entry.metadata}
        metadata["parents"] = {place: names[id_] for place, id_ in metadata["parents"].items() if not place}
        found.append(
            {
                "values": checkpoint["channel_values"],
                "versions": _numbers(checkpoint["channel_versions"]),
                "seen": {node: _numbers(seen) for node, seen in checkpoint["versions_seen"].items()},
                "updated": checkpoint["updated_channels"],
                "format": checkpoint["v"],
                "metadata": metadata,
                "parent": names.get(parent),
                "writes": sorted((name, _shown(value)) for _, name, value in entry.pending_writes or ()),
            }
        )
    return _PAUSE.sub("pause", pformat(found))


def _circle() -> Any:
    """Return a graph with a circle, several runs of one node at once, and a node that waits for all others."""
    rounds = 0

    async def spread(state: State) -> Command[Any]:
        nonlocal rounds
        rounds += 1
        return Command(update={"text": "s"}, goto=[Send("work", {"text": f"{n}"}) for n in range(3)])

    async def work(state: State) -> Command[Any]:
        return Command(update={"text": "w"}, goto="spread" if rounds < 3 else "after")

    builder: Any = StateGraph(State)
    builder.add_node("spread", spread)
    builder.add_node("work", work)
    builder.add_node("after", speaking("a"))
    builder.add_node("last", speaking("l"), defer=True)
    builder.add_edge(START, "spread")
    builder.add_edge("spread", "last")
    return builder.compile


@pytest.mark.parametrize("build", [lambda: diamond, _circle])
async def test_checkpoints_of_graphs_are_those_of_langgraph(build: Any) -> None:
    savers = InMemorySaver(), InMemorySaver()
    ours, theirs = (build()(checkpointer=saver) for saver in savers)
    for number in range(2):
        await play(ours, {"text": f"{number}"}, THREAD, context=None, durability="sync")
        await theirs.ainvoke({"text": f"{number}"}, THREAD, durability="sync")
    found = await _checkpoints(savers[0])
    assert found == await _checkpoints(savers[1])
    assert found.count("'versions'") >= 8


@pytest.mark.parametrize(
    "document",
    [
        canvases.chain(5),
        canvases.fan_out(4),
        canvases.conditional_chain(3),
        canvases.streaming(),
        regions.loop(4),
        regions.iteration(),
        regions.nested(2, 2),
        canvas(FORM),
    ],
)
async def test_checkpoints_of_canvases_are_those_of_langgraph(document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    for _ in range(2):
        saver = InMemorySaver()
        services = fake_services(models=OneModel(ScriptedModel([Reply("yes"), Reply("yes")])))
        runner = Runner(compile_canvas(document, CATALOG), services, saver=saver)
        for query in ("1 2", "3"):
            async for _event in runner.start("s", {"query": query}):
                pass
        if await runner.pauses("s"):
            async for _event in runner.resume("s", {"x": "y"}):
                pass
        found.append(await _checkpoints(saver))
        monkeypatch.setattr(graph_run, "find_loop", lambda: None)
    assert found[0] == found[1]
    assert found[0].count("'versions'") > 4


OTHERS: list[Any] = [DeltaChannel(lambda before, updates: before), UntrackedValue(str)]


@pytest.mark.parametrize("channel", OTHERS)
def test_other_channels_are_left_to_langgraph(channel: Any) -> None:
    builder: Any = StateGraph(TypedDict("Other", {"text": Annotated[str, channel]}))  # pyright: ignore[reportArgumentType]
    builder.add_node("a", lambda state: state)  # pyright: ignore[reportUnknownLambdaType]
    builder.add_edge(START, "a")
    assert not channel_kinds(builder.compile()).are_plain
