"""Rewriting of the last question in a conversation so that it can be understood without the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.agents.agent_log import QUESTION_NOTE, agent_log_of
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.engine_prompts import describe_today, engine_prompt
from ragflow_lg.models.model_call import ask
from ragflow_lg.services.chat import ChatModel, ChatRequest, Usage

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

_STEP = "question"
_MIN_MESSAGES = 4
"""In shorter conversations, the question is not rewritten."""


async def with_standalone_question(ctx: RunContext, model: ChatModel, request: ChatRequest) -> ChatRequest:
    """Replace the last message in a longer conversation with a self-contained question.

    Models copy words from the question into tool arguments; a search for "it" would find nothing.
    """
    messages = list(request.messages)
    if len(messages) < _MIN_MESSAGES or messages[-1]["role"] != "user":
        return request

    log = agent_log_of(ctx)

    async def call() -> JsonValue:
        conversation = _conversation(messages)
        system = engine_prompt(ctx, "standalone_question", conversation=conversation, today=describe_today(ctx))
        rewriting = ChatRequest(system, ({"role": "user", "content": "Output: "},), request.sampling)
        start = log.now()
        answer = await ask(ctx, model, rewriting)
        question = strip_thinking(answer.text).strip()
        return {"question": question, "usage": list(answer.usage), "seconds": log.now() - start}

    stored: Any = await ctx.step("rewritten question", len(messages), call, position=_STEP)
    question: str = stored["question"]
    is_replayed = _STEP in ctx.replayed_steps
    ctx.budget.charge_step(_STEP, sum(stored["usage"][:2]), is_charged=not is_replayed)
    usage = Usage(*stored["usage"])
    await log.record_note(QUESTION_NOTE, question, stored["seconds"], usage, is_replayed=is_replayed)
    if not question:
        return request
    return replace(request, messages=(*messages[:-1], {"role": "user", "content": question}))


def _conversation(messages: Sequence[Any]) -> str:
    return "\n".join(f"{message['role'].upper()}: {message['content']}" for message in messages)
