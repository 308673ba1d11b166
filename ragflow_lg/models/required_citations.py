"""Answers that must cite a source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.tokens import shorten
from ragflow_lg.models.citations import build_citation_request, find_known_citations
from ragflow_lg.services.chat import ChatModel, ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["require_citations"]


async def require_citations(
    ctx: RunContext,
    model: ChatModel,
    request: ChatRequest,
    answer: str,
    ask_again: Callable[[ChatRequest], Awaitable[str]],
) -> str:
    """Return an answer with a citation; an answer without one is requested once more.

    Without sources, any answer is accepted.

    Raises:
        ComponentError: if the second answer has no citation either.
    """
    references = ctx.references
    if not references.get("chunks") or find_known_citations(strip_thinking(answer), references):
        return answer
    max_tokens = model.context_tokens // 4
    shown_answer = shorten(strip_thinking(answer), max_tokens) or "(no answer)"
    follow_up = (
        {"role": "assistant", "content": shown_answer},
        {"role": "user", "content": build_citation_request(references, max_tokens)},
    )
    second = await ask_again(replace(request, messages=(*request.messages, *follow_up), tools=(), stop=()))
    if find_known_citations(strip_thinking(second), references):
        return second
    ctx.refusals += 1
    raise ComponentError("The answer cites none of the sources, although this node requires evidence.")
