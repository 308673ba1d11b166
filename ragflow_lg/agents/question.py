"""A question that stands by itself, made of the last one and the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragflow_lg.model_call import ask
from ragflow_lg.services import ChatModel, ChatRequest
from ragflow_lg.thinking import without_thinking
from ragflow_lg.values import JsonValue

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["QUESTION_HEAD", "with_whole_question"]

QUESTION_HEAD = (
    "Below is a conversation. Write its last question so that it can be understood without the rest: put names in "
    "place of words that point back, keep the language, add nothing. Write the question only.\n"
)
"""First words of the instructions."""

_FEW = 3
"""With no more messages than these the question is clear enough."""


async def with_whole_question(ctx: RunContext, model: ChatModel, request: ChatRequest) -> ChatRequest:
    """Put a question that stands by itself in place of the last message of a longer conversation.

    Tools are called with words of the question; those that point back would find nothing.
    """
    messages = list(request.messages)
    if len(messages) <= _FEW or messages[-1]["role"] != "user":
        return request

    async def call() -> JsonValue:
        asked = ChatRequest(
            QUESTION_HEAD + _conversation(messages), ({"role": "user", "content": "Output: "},), request.sampling
        )
        return without_thinking((await ask(ctx, model, asked)).text).strip()

    question: Any = await ctx.step("question", len(messages), call, position="question")
    if not question:
        return request
    return replace(request, messages=(*messages[:-1], {"role": "user", "content": question}))


def _conversation(messages: Sequence[Any]) -> str:
    return "\n".join(f"{message['role'].upper()}: {message['content']}" for message in messages)
