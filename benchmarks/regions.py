"""Canvases with Loops and Iterations, and the same loop written by hand."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from benchmarks.canvases import component, document


def _counting_loop(name: str, rounds: int, downstream: list[str], **more: Any) -> dict[str, Any]:
    params = {
        "loop_variables": [{"variable": "n", "input_mode": "constant", "type": "number", "value": 0}],
        "loop_termination_condition": [{"variable": f"{name}@n", "operator": "≥", "value": rounds}],
        "maximum_loop_count": rounds + 1,
    }
    return {**component("Loop", params, downstream), **more}


def _increment(variable: str, downstream: list[str], parent: str) -> dict[str, Any]:
    change = {"variable": variable, "operator": "+=", "parameter": 1}
    return {**component("VariableAssigner", {"variables": [change]}, downstream), "parent_id": parent}


def loop(rounds: int) -> dict[str, Any]:
    """Return a Loop that counts, with one node per round."""
    return document(
        {
            "begin": component("Begin", {}, ["lp"]),
            "lp": _counting_loop("lp", rounds, []),
            "li": {**component("LoopItem", {}, ["inc"]), "parent_id": "lp"},
            "inc": _increment("lp@n", [], "lp"),
        }
    )


def _merge(current: dict[str, Any] | None, update: dict[str, Any]) -> dict[str, Any]:
    return {**(current or {}), **update}


class _State(TypedDict, total=False):
    outputs: Annotated[dict[str, Any], _merge]
    n: int


def loop_by_hand(rounds: int) -> Any:
    """Return the loop as a LangGraph subgraph whose only node loops back to itself."""

    async def body(state: _State) -> Command[Any]:
        n = state.get("n", 0) + 1
        return Command(update={"outputs": {"inc": {"n": n}}, "n": n}, goto=["body"] if n < rounds else [])

    inner = StateGraph(_State)
    inner.add_node("body", body, destinations=("body",))
    inner.add_edge(START, "body")
    outer = StateGraph(_State)
    outer.add_node("loop", inner.compile())
    outer.add_edge(START, "loop")
    return outer.compile()
