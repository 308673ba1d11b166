"""Fits the conversation of an agent into the context window of its model."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.services.chat import ChatRequest

__all__ = ["TRUNCATION_MARK", "fit_context_window"]

TRUNCATION_MARK = " … (truncated)"
"""End of a truncated message."""

_MIN_TOKENS = 100


def fit_context_window(request: ChatRequest, first: int, context_tokens: int) -> ChatRequest:
    """Truncate the longest messages from index ``first`` on until the request fits into 97 % of the context.

    Earlier messages have been fitted already. No message is truncated below 100 tokens, so the request may still
    exceed the limit.
    """
    tools = sum(estimate_tokens(json.dumps([t.name, t.description, t.parameters])) for t in request.tools)
    room = int(context_tokens * CONTEXT_SHARE) - estimate_tokens(request.system) - tools
    sizes = [estimate_tokens(message["content"]) for message in request.messages]
    if sum(sizes) <= room:
        return request
    messages: list[dict[str, Any]] = [dict(message) for message in request.messages]
    while sum(sizes) > room and first < len(sizes):
        longest = max(range(first, len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= _MIN_TOKENS:
            break
        size = max(_MIN_TOKENS // 2, sizes[longest] - (sum(sizes) - room) - estimate_tokens(TRUNCATION_MARK))
        messages[longest]["content"] = shorten(messages[longest]["content"], size) + TRUNCATION_MARK
        sizes[longest] = estimate_tokens(messages[longest]["content"])
    return replace(request, messages=tuple(messages))
