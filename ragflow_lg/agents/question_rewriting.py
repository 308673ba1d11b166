"""A question that stands by itself, made of the last one and the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.agents.agent_log import QUESTION, agent_log_of
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.model_call import ask
from ragflow_lg.services.chat import ChatModel, ChatRequest, Usage

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["QUESTION_HEAD", "with_whole_question"]

QUESTION_HEAD = (
    "Below is a conversation. Write its last question so that it can be understood without the rest: put names in "
    "place of words that point back, keep the language, add nothing. Write the question only.\n"
)
"""First words of the instructions."""

_STEP = "question"
_FEW = 3
"""With no more messages than these the question is clear enough."""


async def with_whole_question(ctx: RunContext, model: ChatModel, request: ChatRequest) -> ChatRequest:
    """Put a question that stands by itself in place of the last message of a longer conversation.

    Tools are called with words of the question; those that point back would find nothing.
    """
    messages = list(request.messages)
    if len(messages) <= _FEW or messages[-1]["role"] != "user":
        return request

    log = agent_log_of(ctx)

    async def call() -> JsonValue:
        asked = ChatRequest(
            QUESTION_HEAD + _conversation(messages), ({"role": "user", "content": "Output: "},), request.sampling
        )
        began = log.now()
        answer = await ask(ctx, model, asked)
        question = strip_thinking(answer.text).strip()
        return {"question": question, "usage": list(answer.usage), "seconds": log.now() - began}

    stored: Any = await ctx.step("rewritten question", len(messages), call, position=_STEP)
    question: str = stored["question"]
    is_replayed = _STEP in ctx.replayed_steps
    ctx.budget.take(_STEP, sum(stored["usage"][:2]), is_charged=not is_replayed)
    await log.note(QUESTION, question, stored["seconds"], Usage(*stored["usage"]), is_replayed=is_replayed)
    if not question:
        return request
    return replace(request, messages=(*messages[:-1], {"role": "user", "content": question}))


def _conversation(messages: Sequence[Any]) -> str:
    return "\n".join(f"{message['role'].upper()}: {message['content']}" for message in messages)
