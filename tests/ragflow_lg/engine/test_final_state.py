"""Running a graph for the state that it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from ragflow_lg.engine.final_state import final_state


class _State(TypedDict, total=False):
    n: int


def _counter(limit: int) -> Any:
    async def count(state: _State) -> _State:
        return {"n": state.get("n", 0) + 1}

    def goes_on(state: _State) -> str:
        return END if state.get("n", 0) >= limit else "count"

    builder: Any = StateGraph(_State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", goes_on, ["count", END])
    return builder.compile()


async def test_gives_the_state_behind_the_last_superstep() -> None:
    graph = _counter(3)
    state = await final_state(graph, {"n": 0}, {"recursion_limit": 10}, context=None)
    assert state == {"n": 3} == await graph.ainvoke({"n": 0})


async def test_raises_what_the_graph_raises() -> None:
    with pytest.raises(GraphRecursionError):
        await final_state(_counter(30), {"n": 0}, {"recursion_limit": 5}, context=None)
