"""`play` runs a graph as LangGraph does. A failure here means that a new LangGraph runs graphs in a different way."""

import asyncio
from contextvars import ContextVar
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableConfig
from langgraph._internal import _constants as constants
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError, NodeCancelledError
from langgraph.graph import START, StateGraph
from langgraph.runtime import RunControl, Runtime, get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from langsmith import tracing_context  # pyright: ignore[reportUnknownVariableType]
from typing_extensions import TypedDict

from ragflow_lg.engine import langgraph_loop
from ragflow_lg.engine.graph_run import play
from ragflow_lg.engine.langgraph_loop import unwatched_run, with_cheap_runtime


def _joined(first: str, second: str) -> str:
    return first + second


class State(TypedDict, total=False):
    text: Annotated[str, _joined]


def speaking(text: str, seen: list[Any] | None = None) -> Any:
    """Return a node that adds a text, and notes its config."""

    async def speak(state: State, config: RunnableConfig) -> State:
        if seen is not None:
            seen.append(config)
        return {"text": text}

    return speak


def diamond(seen: list[Any] | None = None, **options: Any) -> Any:
    """Return a graph with a node, two beside each other, and one that waits for the user."""

    async def ask(state: State) -> State:
        return {"text": interrupt(state.get("text"))}

    builder: Any = StateGraph(State)
    builder.add_node("a", speaking("a", seen))
    builder.add_node("b", speaking("b", seen))
    builder.add_node("c", speaking("c", seen))
    builder.add_node("ask", ask)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "ask")
    return builder.compile(**options)


THREAD: Any = {"configurable": {"thread_id": "t"}}


async def _steps(graph: Any) -> list[tuple[Any, ...]]:
    """Return everything in the stored steps that two runs have in common."""
    return [
        (
            step.values,
            step.next,
            step.metadata,
            [(task.name, task.path, task.result, [i.value for i in task.interrupts]) for task in step.tasks],
        )
        async for step in graph.aget_state_history(THREAD)
    ]


async def test_the_stored_steps_are_those_of_langgraph() -> None:
    ours, theirs = diamond(checkpointer=InMemorySaver()), diamond(checkpointer=InMemorySaver())
    await play(ours, {"text": "x"}, THREAD, context=None, durability="sync")
    await theirs.ainvoke({"text": "x"}, THREAD, durability="sync")
    assert await _steps(ours) == await _steps(theirs)


@pytest.mark.parametrize("is_ours_first", [True, False])
async def test_langgraph_continues_a_run_and_the_other_way_round(is_ours_first: bool) -> None:
    graph = diamond(checkpointer=InMemorySaver())

    async def theirs(value: Any) -> Any:
        return await graph.ainvoke(value, THREAD, durability="sync")

    async def ours(value: Any) -> Any:
        return await play(graph, value, THREAD, context=None, durability="sync")

    first, second = (ours, theirs) if is_ours_first else (theirs, ours)
    await first({"text": "x"})
    (pause,) = (await graph.aget_state(THREAD)).interrupts
    assert pause.value == "xabc"
    assert (await second(Command(resume={pause.id: "!"})))["text"] == "xabc!"
    assert (await graph.aget_state(THREAD)).next == ()


async def test_a_node_gets_the_config_that_langgraph_makes() -> None:
    found: list[list[Any]] = [[], []]
    given: Any = {**THREAD, "metadata": {"m": 1}, "tags": ["t"]}
    for seen, run in zip(found, (play, None), strict=True):
        graph = diamond(seen, checkpointer=InMemorySaver())
        if run is None:
            await graph.ainvoke({"text": "x"}, given, durability="sync")
        else:
            await run(graph, {"text": "x"}, given, context=None, durability="sync")
    for ours, theirs in zip(*found, strict=True):
        added = {constants.CONFIG_KEY_CALL}
        assert ours["configurable"].keys() | added == theirs["configurable"].keys() | added
        for name in ("langgraph_step", "langgraph_node", "langgraph_triggers", "langgraph_path", "m", "thread_id"):
            assert ours["metadata"][name] == theirs["metadata"][name]
        assert ours["tags"] == theirs["tags"]
        namespace = ours["configurable"]["checkpoint_ns"]
        assert namespace.partition(":")[0] == theirs["configurable"]["checkpoint_ns"].partition(":")[0]
        assert ours["metadata"]["langgraph_checkpoint_ns"] == namespace


async def test_sends_and_inner_graphs_run_as_with_langgraph() -> None:
    inner = diamond()

    async def fan(state: State) -> Command[Any]:
        return Command(update={"text": "f"}, goto=[Send("nest", {"text": str(number)}) for number in range(3)])

    async def nest(state: State, config: RunnableConfig) -> State:
        final = await play(inner, state, config, context=None)
        return {"text": f"({final['text']})"}

    def build(saver: Any) -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("fan", fan)
        builder.add_node("nest", nest)
        builder.add_edge(START, "fan")
        return builder.compile(checkpointer=saver)

    ours, theirs = build(InMemorySaver()), build(InMemorySaver())
    await play(ours, {"text": ""}, THREAD, context=None, durability="sync")
    await theirs.ainvoke({"text": ""}, THREAD, durability="sync")
    for graph in (ours, theirs):
        pauses = (await graph.aget_state(THREAD)).interrupts
        assert [pause.value for pause in pauses] == ["0abc", "1abc", "2abc"]
    answers: Any = Command(resume={pause.id: "!" for pause in (await ours.aget_state(THREAD)).interrupts})
    final = await play(ours, answers, THREAD, context=None, durability="sync")
    assert final["text"] == "f(0abc!)(1abc!)(2abc!)"


class Listener(AsyncCallbackHandler):
    """Notes the nodes that it hears of."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_chain_start(self, *arguments: Any, **options: Any) -> None:
        """Note the name of a node."""
        self.heard.append(options["name"])


async def test_callbacks_hear_of_all_nodes() -> None:
    listener = Listener()
    graph = diamond(checkpointer=InMemorySaver())
    await play(graph, {"text": "x"}, {**THREAD, "callbacks": [listener]}, context=None, durability="sync")
    assert {"LangGraph", "a", "b", "c", "ask"} <= set(listener.heard)


async def test_a_context_can_add_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    variable: ContextVar[Any] = ContextVar("listener", default=None)
    monkeypatch.setattr(langgraph_loop, "_configure_hooks", hooks := [*langgraph_loop._configure_hooks])  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr("langchain_core.tracers.context._configure_hooks", hooks)
    hooks.append((variable, True, None, None))
    variable.set(listener)
    await play(diamond(checkpointer=InMemorySaver()), {"text": "x"}, THREAD, context=None, durability="sync")
    assert {"LangGraph", "a", "b", "c", "ask"} <= set(listener.heard)


def test_debugging_and_tracing_add_callbacks() -> None:
    def handlers() -> list[Any]:
        run = unwatched_run(diamond(), THREAD)
        return run.callbacks.handlers if run is not None else ["some"]

    assert handlers() == []
    set_debug(True)
    try:
        assert handlers() == ["some"]
    finally:
        set_debug(False)
    with tracing_context(enabled=True, client=Mock()):
        assert handlers() == ["some"]


async def test_a_graph_without_a_saver_returns_its_state() -> None:
    builder: Any = StateGraph(State)
    builder.add_node("a", speaking("a"))
    builder.add_edge(START, "a")
    assert await play(builder.compile(), {"text": "x"}, {}, context=None) == {"text": "xa"}


def _endless() -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("a", speaking("a"))
    builder.add_edge(START, "a")
    builder.add_edge("a", "a")
    return builder.compile()


async def test_a_run_ends_at_its_limit_and_when_it_is_drained() -> None:
    with pytest.raises(GraphRecursionError):
        await play(_endless(), {"text": ""}, {"recursion_limit": 5}, context=None)
    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphDrained):
        await play(_endless(), {"text": ""}, {}, context=None, control=control)


async def test_others_run_between_nodes() -> None:
    running = asyncio.create_task(play(_endless(), {"text": ""}, {"recursion_limit": 5000}, context=None))
    await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
async def test_the_error_of_a_node_is_stored_and_raised(error: BaseException) -> None:
    async def fail(state: State) -> State:
        raise error

    builder: Any = StateGraph(State)
    builder.add_node("fail", fail)
    builder.add_edge(START, "fail")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ValueError if isinstance(error, ValueError) else NodeCancelledError):
        await play(graph, {"text": ""}, THREAD, context=None, durability="sync")
    (task,) = (await graph.aget_state(THREAD)).tasks
    assert task.name == "fail"
    assert task.error


async def test_a_node_sees_the_same_runtime_if_its_copies_are_cheap() -> None:
    seen: list[Runtime[Any]] = []

    async def look(state: State) -> State:
        seen.append(get_runtime())
        return {"text": "a"}

    inner: Any = StateGraph(State)
    inner.add_node("look", look)
    inner.add_edge(START, "look")
    subgraph = inner.compile()

    async def nest(state: State) -> State:
        seen.append(get_runtime())
        return await subgraph.ainvoke(state)

    builder: Any = StateGraph(State, context_schema=State)
    builder.add_node("nest", nest)
    builder.add_edge(START, "nest")
    store = InMemoryStore()
    graph = builder.compile(checkpointer=InMemorySaver(), store=store)
    for number in (0, 1):
        config: Any = {"configurable": {"thread_id": str(number)}}
        if number:
            config = with_cheap_runtime(config, graph)
            assert with_cheap_runtime(config, graph) is config
        await graph.ainvoke({"text": ""}, config, context={"text": "c"})
    plain, cheap = seen[:2], seen[2:]
    for one, other in zip(plain, cheap, strict=True):
        assert type(one) is Runtime
        assert type(other) is not Runtime
        assert (other.context, other.store) == (one.context, one.store) == ({"text": "c"}, store)
        assert one.execution_info is not None
        assert other.execution_info is not None
        assert other.execution_info.checkpoint_ns.count("|") == one.execution_info.checkpoint_ns.count("|")
        assert other.execution_info.thread_id == "1"
    assert cheap[0].execution_info != cheap[1].execution_info
    with pytest.raises(ValueError, match="thread_id"):
        await graph.ainvoke({"text": ""}, with_cheap_runtime(None, graph))
