"""Answers that have to cite what was found."""

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
    """Give an answer that cites something that was found; one that does not is asked for once more.

    Where nothing was found there is nothing to cite, and the answer is good.

    Raises:
        ComponentError: if the second answer cites nothing either.
    """
    references = ctx.references
    if not references.get("chunks") or find_known_citations(strip_thinking(answer), references):
        return answer
    room = model.context_tokens // 4
    said = shorten(strip_thinking(answer), room) or "(no answer)"
    more = (
        {"role": "assistant", "content": said},
        {"role": "user", "content": build_citation_request(references, room)},
    )
    second = await ask_again(replace(request, messages=(*request.messages, *more), tools=(), stop=()))
    if find_known_citations(strip_thinking(second), references):
        return second
    ctx.refusals += 1
    raise ComponentError("The answer cites none of what was found, though this node requires evidence.")
