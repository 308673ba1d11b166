"""Which options Claude models accept, by their version, on Anthropic's API and on Bedrock.

Source: Anthropic's documentation of extended and adaptive thinking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragflow_lg.services.chat import ChatRequest

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_FIRST_THINKING = (3, 7)
_FIRST_ADAPTIVE = (4, 7)
"""From this version on, models choose the length of their thinking, and refuse sampling parameters."""
_ALWAYS_THINKING = ("claude-fable-5", "claude-sonnet-5-5", "claude-opus-5-5")
"""They refuse requests without thinking."""
MIN_BUDGET = 1024
MAX_BUDGET = 8192
"""Thinking counts towards ``max_tokens``, whose default is 4,096 for older models and more for newer ones."""


def claude_version(model: str) -> tuple[int, int] | None:
    """Return the version of a Claude model, or None for other models.

    >>> claude_version("us.anthropic.claude-3-7-sonnet-20250219-v1:0"), claude_version("claude-sonnet-4-20250514")
    ((3, 7), (4, 0))
    >>> claude_version("claude-opus-4-8"), claude_version("nova-pro")
    ((4, 8), None)
    """
    found = _VERSION.search(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def sampling_names(model: str, thinking: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the names of the sampling parameters that a model takes: thinking needs the default temperature."""
    version = claude_version(model)
    is_fixed = version is not None and version >= _FIRST_ADAPTIVE
    thinks = thinking is not None and thinking["type"] != "disabled"
    return {name: name for name in ("max_tokens", *(() if is_fixed or thinks else ("temperature", "top_p")))}


def thinking_option(model: str, request: ChatRequest) -> dict[str, Any] | None:
    """Return Anthropic's parameter ``thinking`` for a request, or None if it must be left out.

    The API refuses to think between the calls of tools unless it gets its earlier thoughts back with their signatures.
    A request keeps no thoughts, so the model thinks only before its first call.
    """
    version = claude_version(model)
    if request.thinking == "disabled":
        can_stop = version is not None and version >= _FIRST_THINKING and not any(n in model for n in _ALWAYS_THINKING)
        return {"type": "disabled"} if can_stop else None
    if request.thinking != "enabled" or (request.messages and request.messages[-1].get("role") == "tool"):
        return None
    if version is not None and version >= _FIRST_ADAPTIVE:
        return {"type": "adaptive", "display": "summarized"}
    limit = int(request.sampling.get("max_tokens", 2 * MIN_BUDGET))
    budget = min(MAX_BUDGET, limit // 2)
    return {"type": "enabled", "budget_tokens": budget} if budget >= MIN_BUDGET else None
