"""`play` runs graphs with LangGraph's public methods."""

from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from ragflow_lg.engine.graph_run import play

THREAD: Any = {"configurable": {"thread_id": "t"}}


def _joined(first: str, second: str) -> str:
    return first + second


class State(TypedDict, total=False):
    text: Annotated[str, _joined]


async def _say(state: State) -> State:
    return {"text": "a"}


async def _ask(state: State) -> State:
    return {"text": interrupt(state.get("text"))}


async def test_a_run_pauses_and_goes_on() -> None:
    builder: Any = StateGraph(State)
    builder.add_node("a", _say)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "a")
    builder.add_edge("a", "ask")
    graph = builder.compile(checkpointer=InMemorySaver())

    await play(graph, {"text": "x"}, THREAD, context=None, durability="sync")
    (pause,) = (await graph.aget_state(THREAD)).interrupts
    resumed = await play(graph, Command(resume={pause.id: "!"}), THREAD, context=None, durability="sync")

    assert (pause.value, resumed["text"]) == ("xa", "xa!")


async def test_a_run_ends_at_its_limit_and_when_it_is_drained() -> None:
    builder: Any = StateGraph(State)
    builder.add_node("a", _say)
    builder.add_edge(START, "a")
    builder.add_edge("a", "a")
    graph = builder.compile()
    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphRecursionError):
        await play(graph, {"text": ""}, {"recursion_limit": 5}, context=None)
    with pytest.raises(GraphDrained):
        await play(graph, {"text": ""}, {}, context=None, control=control)
