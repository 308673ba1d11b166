"""LangGraph's internals are what this project assumes. A failure means that a new LangGraph changed one."""

import asyncio
import time
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph._internal import _constants as constants  # pyright: ignore[reportPrivateUsage] - the names under test
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import END, START
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from ragflow_lg.base import langgraph_internals as internals
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import OpenStore

THREAD: Any = {"configurable": {"thread_id": "t"}}
RANDOM = "9b2f0c1e-5d3a-4c7b-8e6f-1a2b3c4d5e6f"
COUNTING = out("{sys.conversation_turns}")


class State(TypedDict, total=False):
    text: str
    other: str


def speak(state: State) -> State:
    return {"text": state.get("text", "") + "a"}


def idle(state: State) -> State:
    return {}


def compiled(*nodes: Any, saver: Any = None) -> Any:
    """Build a graph of functions that run one after the other."""
    builder: Any = StateGraph(State)
    before = START
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    return builder.compile(checkpointer=saver)


def test_the_names_are_those_of_langgraph() -> None:
    assert constants.NULL_TASK_ID == internals.NULL_TASK_ID
    assert (internals.NAMESPACE_SEPARATOR, internals.TASK_SEPARATOR) == (constants.NS_SEP, constants.NS_END)
    assert compiled(speak).nodes["speak"].triggers == [f"{internals.BRANCH_PREFIX}speak"]


async def test_updates_that_are_no_edits_have_these_nodes() -> None:
    assert internals.NOT_EDITS[:3] == (START, END, constants.INPUT)
    graph = compiled(speak, saver=InMemorySaver())
    await graph.ainvoke({"text": "x"}, THREAD)
    before = await graph.aget_state(THREAD)
    await graph.aupdate_state(THREAD, None, as_node=internals.NOT_EDITS[3])
    after = await graph.aget_state(THREAD)
    assert after.metadata["source"] == "fork"
    assert after.values == before.values


def test_a_map_with_the_overwrite_key_replaces_a_channel() -> None:
    for update in ({internals.OVERWRITE: [2]}, {"type": internals.OVERWRITE, "value": [2]}):
        channel = BinaryOperatorAggregate[list[int]](list, lambda old, new: old + new)
        channel.update([[1]])
        channel.update([update])  # pyright: ignore[reportArgumentType] - not part of LangGraph's types
        assert channel.get() == [2]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without a previous id and with a clock that is one hour slow."""
    now = time.time_ns
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)


@pytest.mark.parametrize("text", ["", "not an id", RANDOM, "ffffffff-ffff-6fff-bfff-ffffffffffff"])
def test_other_ids_have_no_effect(text: str) -> None:
    before = langgraph_ids.uuid6(clock_seq=0)
    internals.advance_ids_past(text)
    after = langgraph_ids.uuid6(clock_seq=0)
    assert before < after
    assert after.time - before.time < 10**9


async def test_no_turn_is_lost_if_the_clock_is_set_back(reopen: OpenStore, request: pytest.FixtureRequest) -> None:
    earlier_id = str(langgraph_ids.uuid6(clock_seq=0))
    async with reopen() as store:
        for _ in range(2):
            await play_run(runner_of(COUNTING, store=store).start("s", {"query": "q"}))
        request.getfixturevalue("slow_clock")
        assert str(langgraph_ids.uuid6(clock_seq=0)) < earlier_id
        runner = runner_of(COUNTING, store=store)
        assert [(await play_run(runner.start("s", {"query": "q"})))[0] for _ in range(2)] == ["3", "4"]


@pytest.mark.parametrize("is_separate", [True, False])
async def test_a_graph_in_a_context_without_run_is_no_subgraph(is_separate: bool) -> None:
    threads: list[str | None] = []

    async def inner_node(state: State, config: RunnableConfig) -> State:
        threads.append(config.get("configurable", {}).get("thread_id"))
        return {}

    async def outer_node(state: State) -> State:
        context = internals.copy_context_without_run() if is_separate else None
        await asyncio.create_task(compiled(inner_node).ainvoke({"text": ""}), context=context)
        return {}

    await compiled(outer_node, saver=InMemorySaver()).ainvoke({"text": ""}, THREAD)
    assert threads == [None if is_separate else "t"]


async def test_a_node_also_runs_for_an_added_trigger() -> None:
    visits: list[str] = []

    def join(state: State) -> State:
        visits.append("join")
        return {}

    builder: Any = StateGraph(State)
    builder.add_node("speak", speak)
    builder.add_node("join", join)
    builder.add_edge(START, "speak")
    graph = builder.compile()
    await graph.ainvoke({"text": ""})
    assert visits == []
    internals.add_trigger(graph, "join", "text")
    graph.validate()
    await graph.ainvoke({"other": "x"})
    assert visits == ["join"]


def test_a_declared_subgraph_is_found_and_addressed_by_its_namespace() -> None:
    graph, inner = compiled(speak, idle, saver=InMemorySaver()), compiled(speak)
    assert list(graph.get_subgraphs()) == []
    internals.set_subgraph(graph, "idle", inner)
    assert list(graph.get_subgraphs()) == [("idle", inner)]
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "idle:1"}}
    assert internals.find_subgraph(graph, config)[0] is inner
    assert internals.find_subgraph(graph, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}) is None


async def test_streams_show_only_the_stream_channels() -> None:
    graph = compiled(speak)
    internals.set_stream_channels(graph, ("text",))
    parts = [part async for part in graph.astream({"text": "", "other": "x"}, stream_mode="values")]
    assert {key for part in parts for key in part} == {"text"}


async def test_a_graph_of_a_subclass_runs_as_before() -> None:
    class Subclass(CompiledStateGraph[Any, Any, Any, Any]):
        plan: str

    graph = compiled(speak)
    assert internals.convert_graph(graph, Subclass, plan="p") is graph
    assert (type(graph), graph.plan) == (Subclass, "p")
    assert (await graph.ainvoke({"text": "x"}))["text"] == "xa"


def test_the_saver_is_the_own_one_or_that_of_the_graph_around() -> None:
    own, outer = InMemorySaver(), InMemorySaver()
    inside: RunnableConfig = {"configurable": {constants.CONFIG_KEY_CHECKPOINTER: outer}}
    assert type(internals.resolve_checkpointer(compiled(speak, saver=own), THREAD)) is InMemorySaver
    assert internals.resolve_checkpointer(compiled(speak), THREAD) is None
    assert internals.resolve_checkpointer(compiled(speak), inside) is not None


async def test_a_task_knows_its_superstep_and_whether_it_resumes() -> None:
    seen: list[tuple[int, bool]] = []

    def note(state: State, config: RunnableConfig) -> State:
        seen.append((internals.superstep_of(config), internals.is_resuming(config)))
        return {}

    graph = compiled(note, saver=InMemorySaver())
    await graph.ainvoke({"text": ""}, THREAD, interrupt_before=["note"])
    await graph.ainvoke(None, THREAD)
    assert seen == [(1, True)]
    assert not internals.is_resuming({})
