from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CYCLE_STEPS, run_to_end
from tests.fakes.canvas import CATALOG, canvas, switch, text


def test_the_superstep_limit_depends_on_cycles() -> None:
    chain = compile_canvas(canvas({f"n{i}": text([f"n{i + 1}"] if i < 199 else []) for i in range(200)}), CATALOG)
    assert chain.recursion_limit > 201
    cycle = compile_canvas(canvas({"a": text(["s"]), "s": switch(["a"], ["b"]), "b": text()}), CATALOG)
    assert cycle.recursion_limit == CYCLE_STEPS


def test_a_saver_is_attached_to_a_copy() -> None:
    compiled, saver = compile_canvas(canvas({"a": text()}), CATALOG), InMemorySaver()
    graph: Any = compiled.graph
    copy: Any = compiled.with_saver(saver).graph
    assert copy.checkpointer is saver
    assert graph.checkpointer is None
    assert compiled.with_saver(None) is compiled


class _State(TypedDict, total=False):
    n: int


def _counter(limit: int) -> Any:
    async def count(state: _State) -> _State:
        return {"n": state.get("n", 0) + 1}

    def choose_next(state: _State) -> str:
        return END if state.get("n", 0) >= limit else "count"

    builder: Any = StateGraph(_State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", choose_next, ["count", END])
    return builder.compile()


async def test_run_to_end_returns_the_state_after_the_last_superstep() -> None:
    graph = _counter(3)
    state = await run_to_end(graph, {"n": 0}, {"recursion_limit": 10}, context=None)
    assert state == {"n": 3} == await graph.ainvoke({"n": 0})


async def test_run_to_end_raises_the_errors_of_the_graph() -> None:
    with pytest.raises(GraphRecursionError):
        await run_to_end(_counter(30), {"n": 0}, {"recursion_limit": 5}, context=None)
