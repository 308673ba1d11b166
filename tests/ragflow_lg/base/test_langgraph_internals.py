from langgraph._internal import _constants
from langgraph.constants import END, START
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

from ragflow_lg.base import langgraph_internals as names


class _State(TypedDict, total=False):
    n: int


def test_the_names_are_those_of_langgraph() -> None:
    assert (names.START, names.END) == (START, END)
    assert names.INTERRUPT_CHANNEL == _constants.INTERRUPT
    assert (names.NAMESPACE_SEPARATOR, names.TASK_SEPARATOR) == (_constants.NS_SEP, _constants.NS_END)


def test_a_node_is_triggered_by_the_channel_of_its_name() -> None:
    def node(state: _State) -> _State:
        return {}

    graph = StateGraph(_State)
    graph.add_node("a", node)  # pyright: ignore[reportUnknownMemberType] - partly unknown in LangGraph
    graph.add_edge(START, "a")
    assert graph.compile().nodes["a"].triggers == [f"{names.ENTRY_CHANNEL_PREFIX}a"]  # pyright: ignore[reportUnknownMemberType] - partly unknown in LangGraph
