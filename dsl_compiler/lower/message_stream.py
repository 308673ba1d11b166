"""What Messages say, for whoever follows a graph by ``stream_mode="messages"``.

LangGraph takes pieces of text from the callbacks of LangChain's chat models, of which there are none here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.config import get_config
from langgraph.pregel._messages import StreamMessagesHandler

__all__ = ["MessageStream"]


class MessageStream:
    """Hands the pieces of one turn's answer on."""

    def __init__(self, run: str) -> None:
        """``run`` is the id of the run, 32 hexadecimal digits."""
        self._run = UUID(run)

    def show(self, text: str, message: str) -> None:
        """Hand a piece of a message on; to be called within a node. ``message`` is the id of the whole."""
        config: Any = get_config()
        for handler in _handlers(config):
            if self._run not in handler.metadata:
                handler.on_chat_model_start({}, [[]], run_id=self._run, metadata=dict(config["metadata"]))
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, id=message))
            handler.on_llm_new_token(text, chunk=chunk, run_id=self._run)


def _handlers(config: Any) -> Iterator[StreamMessagesHandler]:
    manager = config.get("callbacks")
    for handler in getattr(manager, "handlers", ()):
        if type(handler) is StreamMessagesHandler:
            yield handler
