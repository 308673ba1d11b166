"""``ChatBedrockConverse`` with asynchronous calls. Importing this module takes about a second."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from langchain_aws import ChatBedrockConverse
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from ragflow_lg.adapters.model_families.thread_calls import ThreadCalls


class BedrockChat(ChatBedrockConverse):
    """The class as it is, except that its synchronous calls run in our threads, not in those of the event loop."""

    threads: Any = Field(exclude=True)
    """A `ThreadCalls`."""

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await self.threads.run(lambda: self._generate(messages, stop, None, **kwargs))

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with aclosing(self.threads.iterate(lambda: self._stream(messages, stop, None, **kwargs))) as chunks:
            async for chunk in chunks:
                yield chunk


def make_bedrock_chat(model: str, client: Any, threads: ThreadCalls) -> BedrockChat:
    """Create the chat model. ``init_chat_model`` creates only the class without asynchronous calls."""
    return BedrockChat(model=model, client=client, bedrock_client=client, threads=threads)
