"""What Messages say, for whoever follows a graph by ``stream_mode="messages"``.

LangGraph takes pieces of text from the callbacks of LangChain's chat models, of which there are none here.
"""

from __future__ import annotations

from langchain_core.messages import AIMessageChunk
from langgraph.graph.message import push_message

__all__ = ["show_piece"]


def show_piece(text: str, message: str) -> None:
    """Hand a piece of a message on; to be called within a node. ``message`` is the id of the whole."""
    push_message(AIMessageChunk(content=text, id=message), state_key=None)
