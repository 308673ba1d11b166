"""Keeping the conversation of an agent within the context of its model."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.services.chat import ChatRequest

__all__ = ["SHORTENED", "with_room"]

SHORTENED = " … (shortened)"
"""Stands at the end of a result that had to be shortened."""

_FEWEST_TOKENS = 100


def with_room(request: ChatRequest, first: int, context_tokens: int) -> ChatRequest:
    """Shorten the longest messages from index ``first`` on until the request fits into 97 % of the context.

    Those before have been fitted already. Nothing is made shorter than 100 tokens, so a request may stay too long.
    """
    tools = sum(estimate_tokens(json.dumps([t.name, t.description, t.parameters])) for t in request.tools)
    room = int(context_tokens * CONTEXT_SHARE) - estimate_tokens(request.system) - tools
    sizes = [estimate_tokens(message["content"]) for message in request.messages]
    if sum(sizes) <= room:
        return request
    messages: list[dict[str, Any]] = [dict(message) for message in request.messages]
    while sum(sizes) > room and first < len(sizes):
        longest = max(range(first, len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= _FEWEST_TOKENS:
            break
        kept = max(_FEWEST_TOKENS // 2, sizes[longest] - (sum(sizes) - room) - estimate_tokens(SHORTENED))
        messages[longest]["content"] = shorten(messages[longest]["content"], kept) + SHORTENED
        sizes[longest] = estimate_tokens(messages[longest]["content"])
    return replace(request, messages=tuple(messages))
