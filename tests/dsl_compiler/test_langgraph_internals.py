"""LangGraph's internals are what the compiler assumes. A failure here means that a new LangGraph changed one."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph._internal import _constants as constants
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.last_value import LastValue
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import END, START
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

from ragflow_lg.dsl_compiler import langgraph_internals as internals


class State(TypedDict, total=False):
    text: str
    other: str


class Other(TypedDict, total=False):
    other: str


def speak(state: State) -> State:
    return {"text": state.get("text", "") + "a"}


def idle(state: State) -> State:
    return {}


def compiled(saver: Any = None) -> Any:
    """Build a graph with an edge from "speak" to "idle"."""
    builder: Any = StateGraph(State)
    builder.add_node("speak", speak)
    builder.add_node("idle", idle)
    builder.add_edge(START, "speak")
    builder.add_edge("speak", "idle")
    return builder.compile(checkpointer=saver)


THREAD: Any = {"configurable": {"thread_id": "t"}}


def test_a_node_is_triggered_by_the_channel_of_its_branch() -> None:
    graph = compiled()
    assert graph.nodes["speak"].triggers == [internals.BRANCH_PREFIX + "speak"]
    assert internals.BRANCH_PREFIX + "idle" in graph.channels


def test_a_channel_of_missing_is_not_stored() -> None:
    assert LastValue(str).checkpoint() is internals.MISSING


def test_writes_that_are_no_results_have_these_channels() -> None:
    names = {constants.ERROR, constants.ERROR_SOURCE_NODE, constants.INTERRUPT, constants.RESUME, constants.TASKS}
    assert {*names, *WRITES_IDX_MAP} == internals.NOT_RESULTS


async def test_updates_that_are_no_edits_have_these_nodes() -> None:
    assert internals.NOT_EDITS[:3] == (START, END, constants.INPUT)
    graph = compiled(InMemorySaver())
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
    assert all(name.startswith(internals.RESERVED_PREFIX) for name in (internals.OVERWRITE, constants.INTERRUPT))


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


def test_a_declared_subgraph_is_found() -> None:
    graph, inner = compiled(), compiled()
    assert list(graph.get_subgraphs()) == []
    internals.set_subgraph(graph, "idle", inner)
    assert list(graph.get_subgraphs()) == [("idle", inner)]


async def test_streams_show_only_the_stream_channels() -> None:
    graph = compiled()
    internals.set_stream_channels(graph, ("text",))
    parts = [part async for part in graph.astream({"text": "", "other": "x"}, stream_mode="values")]
    assert {key for part in parts for key in part} == {"text"}


async def test_a_graph_of_a_subclass_runs_as_before() -> None:
    class Subclass(CompiledStateGraph[Any, Any, Any, Any]):
        plan: str

    graph = compiled()
    subclass = internals.convert_graph(graph, Subclass, plan="p")
    assert subclass is graph
    assert (type(graph), graph.plan) == (Subclass, "p")
    assert (await graph.ainvoke({"text": "x"}))["text"] == "xa"


def test_the_saver_is_the_own_one_or_that_of_the_graph_around() -> None:
    own, outer = InMemorySaver(), InMemorySaver()
    inside: RunnableConfig = {"configurable": {constants.CONFIG_KEY_CHECKPOINTER: outer}}
    assert type(internals.resolve_checkpointer(compiled(own), THREAD)) is InMemorySaver
    assert internals.resolve_checkpointer(compiled(), THREAD) is None
    assert internals.resolve_checkpointer(compiled(), inside) is not None
    assert internals.required_checkpointer(compiled(own), THREAD) is not None
    with pytest.raises(ValueError, match="No checkpointer"):
        internals.required_checkpointer(compiled(), THREAD)


def test_a_namespace_addresses_a_subgraph() -> None:
    graph, inner = compiled(InMemorySaver()), compiled()
    internals.set_subgraph(graph, "idle", inner)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "idle:1"}}
    root: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    assert internals.find_subgraph(graph, config, graph.checkpointer)[0] is inner
    assert internals.find_subgraph(graph, root, graph.checkpointer) is None


async def test_a_task_knows_its_namespace_its_superstep_and_whether_it_resumes() -> None:
    seen: list[tuple[str, int, bool]] = []

    def note(state: State, config: RunnableConfig) -> State:
        seen.append((internals.task_namespace(config), internals.superstep_of(config), internals.is_resuming(config)))
        return {}

    builder: Any = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graph = builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"text": ""}, THREAD, interrupt_before=["note"])
    await graph.ainvoke(None, THREAD)
    ((namespace, superstep, is_resuming),) = seen
    assert namespace.startswith("note:")
    assert superstep == 1
    assert is_resuming
    assert not internals.is_resuming({})
    assert internals.task_namespace({}) == ""
    assert constants.CONFIG_KEY_RESUMING == "__pregel_resuming"


async def test_the_runtime_of_a_config_is_that_of_the_task() -> None:
    def look(state: State, config: RunnableConfig) -> State:
        assert internals.runtime_of(config) is get_runtime()
        return {"text": "seen"}

    builder: Any = StateGraph(State)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    assert await builder.compile().ainvoke({}) == {"text": "seen"}
