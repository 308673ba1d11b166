"""The same graphs written by hand: static edges, one ``outputs`` channel, constant results and no events."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict


def _merge(current: dict[str, Any] | None, update: dict[str, Any]) -> dict[str, Any]:
    return {**(current or {}), **update}


class State(TypedDict, total=False):
    """A state with one channel."""

    outputs: Annotated[dict[str, Any], _merge]


def _constant(name: str) -> Any:
    async def node(state: State) -> State:
        return {"outputs": {name: {"result": "hello q"}}}

    return node


def chain(length: int) -> Any:
    """Return a first node followed by a chain of ``length`` nodes."""
    builder, previous = StateGraph(State), START
    for name in ["begin", *(f"n{i}" for i in range(length))]:
        builder.add_node(name, _constant(name))
        builder.add_edge(previous, name)
        previous = name
    return builder.compile()


def fan_out(width: int) -> Any:
    """Return ``width`` parallel nodes and a join."""
    builder = StateGraph(State)
    builder.add_node("begin", _constant("begin"))
    builder.add_edge(START, "begin")
    names = [f"n{i}" for i in range(width)]
    for name in names:
        builder.add_node(name, _constant(name))
        builder.add_edge("begin", name)
    builder.add_node("join", _constant("join"))
    builder.add_edge(names, "join")
    return builder.compile()


class LoopState(State, total=False):
    """A state with the number of the round."""

    n: int


def loop(rounds: int) -> Any:
    """Return the loop as a LangGraph subgraph whose only node loops back to itself."""

    async def body(state: LoopState) -> Command[Any]:
        n = state.get("n", 0) + 1
        return Command(update={"outputs": {"inc": {"n": n}}, "n": n}, goto=["body"] if n < rounds else [])

    inner = StateGraph(LoopState)
    inner.add_node("body", body, destinations=("body",))
    inner.add_edge(START, "body")
    outer = StateGraph(LoopState)
    outer.add_node("loop", inner.compile())
    outer.add_edge(START, "loop")
    return outer.compile()
