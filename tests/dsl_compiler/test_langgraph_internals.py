"""LangGraph's internals are what the compiler assumes. A failure here means that a new LangGraph changed one."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tracers import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph._internal import _constants as constants
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.last_value import LastValue
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import END, START
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send
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


async def test_a_compiled_graph_is_the_one_that_langgraph_compiles() -> None:
    class Step(Runnable[Any, Command[Any]]):
        def __init__(self, name: str, *following: str) -> None:
            self.name, self.following = name, following

        def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Command[Any]:
            return Command(update={"text": input.get("text", "") + (self.name or "")}, goto=self.following)

    def build() -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("c", Step("c", "end"))
        builder.add_node("a", Step("a", "b", "end"))
        builder.add_node("b", Step("b", "c"))
        builder.add_node("other", Step("other"), input_schema=Other)
        builder.add_node("end", Step("end"), defer=True)
        builder.add_node("end of all", Step("end of all"), defer=True)
        builder.add_edge(START, "a")
        return builder

    theirs, ours = build().compile(name="g"), internals.compile_graph(build(), "g")
    ours.validate()
    internals.skip_unheard_tracking(ours)
    assert list(ours.nodes) == list(theirs.nodes)
    assert list(ours.channels) == list(theirs.channels)
    assert list(map(type, ours.channels.values())) == list(map(type, theirs.channels.values()))
    assert ours.trigger_to_nodes == theirs.trigger_to_nodes
    assert list(ours.builder.nodes) == list(theirs.builder.nodes)
    for name, node in theirs.nodes.items():
        mine = ours.nodes[name]
        assert (mine.triggers, mine.channels, mine.subgraphs) == (node.triggers, node.channels, node.subgraphs)
        assert type(mine.bound) is type(node.bound)
        assert [writer.get_name() for writer in mine.flat_writers] == [w.get_name() for w in node.flat_writers]
    assert await ours.ainvoke({"text": ""}) == await theirs.ainvoke({"text": ""}) == {"text": "abcend"}


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


class Collector(BaseTracer):
    """Keeps the runs without a parent, as LangSmith's tracer sends them."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run)


def tree(run: Any) -> Any:
    return run.name, run.run_type, bool(run.error), run.outputs, [tree(child) for child in run.child_runs]


def calling(*, fails: bool = False) -> Any:
    """Build a graph whose only node calls a runnable."""

    async def shout(value: str) -> str:
        if fails:
            raise ValueError(value)
        return value + "!"

    async def call(state: State) -> State:
        return {"text": await RunnableLambda(shout).ainvoke("a")}

    builder: Any = StateGraph(State)
    builder.add_node("call", call)
    builder.add_edge(START, "call")
    return builder.compile()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_tracer_sees_the_same_runs(fails: bool) -> None:
    seen: list[Any] = []
    for quiet in (False, True):
        graph, tracer = calling(fails=fails), Collector()
        if quiet:
            internals.skip_unheard_tracking(graph)
        with pytest.raises(ValueError, match="a") if fails else nullcontext():
            await graph.ainvoke({}, {"callbacks": [tracer]})
        seen.append([tree(run) for run in tracer.runs])
    assert seen[0] == seen[1]
    assert [child[0] for child in seen[0][0][4]] == ["call"]
    assert [child[0] for child in seen[0][0][4][0][4]] == ["shout"]


async def test_the_events_of_a_graph_are_the_same() -> None:
    seen: list[Any] = []
    for quiet in (False, True):
        graph = calling()
        if quiet:
            internals.skip_unheard_tracking(graph)
        events = [event async for event in graph.astream_events({}, version="v2")]
        seen.append([(e["event"], e["name"], e["data"], len(e["parent_ids"])) for e in events])
    assert seen[0] == seen[1]
    assert ("on_chain_end", "shout") in {entry[:2] for entry in seen[0]}


async def test_a_node_without_a_listener_runs_in_the_task_of_its_graph() -> None:
    tasks: list[Any] = []

    async def note(state: State) -> State:
        tasks.append(asyncio.current_task())
        return {"text": "a"}

    builder: Any = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graph = builder.compile()
    internals.skip_unheard_tracking(graph)
    assert await graph.ainvoke({}) == {"text": "a"}
    assert tasks == [asyncio.current_task()]
    assert var_child_runnable_config.get() is None


async def test_what_a_node_calls_gets_its_config_but_not_its_name() -> None:
    seen: list[Any] = []

    async def look(state: State) -> State:
        seen.append(ensure_config())
        return {"text": "a"}

    builder: Any = StateGraph(State)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    for quiet in (False, True):
        graph = builder.compile()
        if quiet:
            internals.skip_unheard_tracking(graph)
        await graph.ainvoke({}, {"tags": ["t"], "metadata": {"m": 1}, "run_name": "outer"})
    plain, quiet = seen
    assert {"m": 1, "langgraph_node": "look", "langgraph_step": 1}.items() <= quiet["metadata"].items()
    assert plain["metadata"].keys() == quiet["metadata"].keys()
    for key in ("tags", "recursion_limit", "run_name", "run_id"):
        assert plain.get(key) == quiet.get(key), key
    assert plain["configurable"].keys() == quiet["configurable"].keys()


async def test_a_failing_node_restores_the_config_around_it() -> None:
    graph = calling(fails=True)
    internals.skip_unheard_tracking(graph)
    with pytest.raises(ValueError, match="a"):
        await graph.ainvoke({})
    assert var_child_runnable_config.get() is None


async def test_the_writes_of_a_command_are_those_of_langgraph() -> None:
    seen: list[Any] = []
    for quiet in (False, True):
        graph = commanding()
        if quiet:
            internals.skip_unheard_tracking(graph)
        seen.append([step async for step in graph.astream({"text": ""}, stream_mode=["updates", "values", "tasks"])])
        for _, step in seen[-1]:
            step.pop("id", None)
    assert seen[0] == seen[1]
    assert seen[0][-1] == ("values", {"text": "fromcommand!", "other": "o"})


def commanding() -> Any:
    """Build a graph whose nodes go on by commands: to two nodes, to a node with its own input, and to the end."""

    async def first(state: State) -> Any:
        return Command(update={"text": "from"}, goto=["left", Send("right", {"other": "o"})])

    async def left(state: State) -> Any:
        return Command(update={"text": state.get("text", "") + "command"}, goto="last")

    async def right(state: State) -> Any:
        return Command(update=dict(state))

    async def last(state: State) -> Any:
        return Command(update={"text": state.get("text", "") + "!"}, goto=END)

    builder: Any = StateGraph(State)
    for node in (first, left, right, last):
        builder.add_node(node.__name__, node, destinations=("left", "right", "last", END))
    builder.add_edge(START, "first")
    return builder.compile()


async def test_the_runtime_of_a_config_is_that_of_the_task() -> None:
    def look(state: State, config: RunnableConfig) -> State:
        assert internals.runtime_of(config) is get_runtime()
        return {"text": "seen"}

    builder: Any = StateGraph(State)
    builder.add_node("look", look)
    builder.add_edge(START, "look")
    assert await builder.compile().ainvoke({}) == {"text": "seen"}
