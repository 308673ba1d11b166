import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph._internal import _constants
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import END, START
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from ragflow_lg.base import langgraph_internals as names


class _State(TypedDict, total=False):
    n: int


def test_the_names_are_those_of_langgraph() -> None:
    assert (names.START, names.END) == (START, END)
    assert names.INTERRUPT_CHANNEL == _constants.INTERRUPT
    assert names.NULL_TASK_ID == _constants.NULL_TASK_ID
    assert (names.NAMESPACE_SEPARATOR, names.TASK_SEPARATOR) == (_constants.NS_SEP, _constants.NS_END)


def test_a_node_is_triggered_by_the_channel_of_its_name() -> None:
    def node(state: _State) -> _State:
        return {}

    graph = StateGraph(_State)
    graph.add_node("a", node)  # pyright: ignore[reportUnknownMemberType] - partly unknown in LangGraph
    graph.add_edge(START, "a")
    assert graph.compile().nodes["a"].triggers == [f"{names.ENTRY_CHANNEL_PREFIX}a"]  # pyright: ignore[reportUnknownMemberType] - partly unknown in LangGraph


@pytest.mark.parametrize("is_separate", [True, False])
async def test_a_graph_in_a_context_without_run_is_no_subgraph(is_separate: bool) -> None:
    threads: list[str | None] = []

    async def inner_node(state: _State, config: RunnableConfig) -> _State:
        threads.append(config.get("configurable", {}).get("thread_id"))
        return {}

    inner = _graph_of(inner_node)

    async def outer_node(state: _State) -> _State:
        context = names.copy_context_without_run() if is_separate else None
        await asyncio.create_task(inner.ainvoke({"n": 1}), context=context)
        return {}

    await _graph_of(outer_node, InMemorySaver()).ainvoke({"n": 1}, {"configurable": {"thread_id": "t"}})
    assert threads == [None if is_separate else "t"]


def _graph_of(node: Any, saver: Any = None) -> Any:
    builder: Any = StateGraph(_State)
    builder.add_node("a", node)
    builder.add_edge(START, "a")
    return builder.compile(checkpointer=saver)
