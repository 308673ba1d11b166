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


def conditional_chain(length: int) -> Any:
    """Return ``length`` nodes that each choose the next one with ``Command``."""
    builder = StateGraph(State)

    def choose(name: str, following: str) -> Any:
        async def node(state: State) -> Command[Any]:
            return Command(update={"outputs": {name: {"_next": [following]}}}, goto=following)

        return node

    for i in range(length):
        following = f"s{i + 1}" if i + 1 < length else "end"
        builder.add_node(f"s{i}", choose(f"s{i}", following), destinations=(following, f"out{i}"))
        builder.add_node(f"out{i}", _constant(f"out{i}"))
    builder.add_node("end", _constant("end"))
    builder.add_node("begin", _constant("begin"))
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "s0")
    return builder.compile()
