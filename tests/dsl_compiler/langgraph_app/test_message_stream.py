from __future__ import annotations

from typing import Any

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from ragflow_lg.dsl_compiler.langgraph_app.message_stream import show_piece


class State(TypedDict, total=False):
    said: str


async def test_pieces_reach_only_who_follows_messages() -> None:
    async def speak(state: State) -> State:
        show_piece("a", "whole")
        show_piece("b", "whole")
        return {"said": "ab"}

    builder = StateGraph(State)
    builder.add_node("speak", speak)
    builder.add_edge(START, "speak")
    graph: Any = builder.compile()
    parts = [part async for part in graph.astream({}, stream_mode="messages")]
    assert [(chunk.content, chunk.id) for chunk, _ in parts] == [("a", "whole"), ("b", "whole")]
    assert parts[0][1]["langgraph_node"] == "speak"
    assert [part async for part in graph.astream({}, stream_mode="updates")] == [{"speak": {"said": "ab"}}]
