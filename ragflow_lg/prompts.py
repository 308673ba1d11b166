"""Messages for a chat model: the view of the history, attachments, fitting into the context.

Sources: RAGFlow's ``agent/component/llm.py`` and ``agent/canvas.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.values import JsonValue, to_text

__all__ = ["append_to_last_user", "cut_sections", "estimate_tokens", "fit", "history_view", "images_in", "join_prompts"]

ChatMessage = dict[str, str]
"""``{"role": "user" | "assistant", "content": text}``."""

CONTEXT_SHARE = 0.97
"""Share of the model's context that a request may fill."""

_SECTION_NAMES = (
    "TASK_ANALYSIS",
    "PLAN_GENERATION",
    "REFLECTION",
    "CONTEXT_SUMMARY",
    "CONTEXT_RANKING",
    "CITATION_GUIDELINES",
)
_SECTIONS = re.compile("|".join(rf"<{n}>.*?</{n}>" for n in _SECTION_NAMES), re.DOTALL | re.IGNORECASE)
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_IMAGE = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+")


def history_view(history: Sequence[Sequence[Any]], window: int) -> list[ChatMessage]:
    """Give the last ``2 * window`` entries as messages, this turn's user entry among them.

    A payload map stands for its ``content``.
    """
    if window <= 0:
        return []
    return [{"role": str(role), "content": _content(payload)} for role, payload in history[-2 * window :]]


def _content(payload: JsonValue) -> str:
    if isinstance(payload, Mapping):
        return to_text(cast("Mapping[str, Any]", payload).get("content"))
    return to_text(payload)


def join_prompts(view: Sequence[ChatMessage], prompts: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Put prompts behind the earlier turns. An earlier entry of the first prompt's role right before it gives way."""
    earlier = list(view[:-1])
    if earlier and prompts and earlier[-1]["role"] == prompts[0]["role"]:
        earlier.pop()
    return [*earlier, *prompts]


def append_to_last_user(messages: Sequence[ChatMessage], texts: Iterable[str]) -> list[ChatMessage]:
    """Put texts behind the last user message, parted by blank lines."""
    found = [dict(message) for message in messages]
    for message in reversed(found):
        if message["role"] == "user":
            message["content"] = "\n\n".join([message["content"], *texts])
            break
    return found


def images_in(value: JsonValue) -> list[str]:
    """Give the images (``data:`` URIs) found anywhere in a value, each once."""
    return list(dict.fromkeys(_IMAGE.findall(to_text(value))))


def without_images(text: str) -> str:
    """Take images out of a text."""
    return _IMAGE.sub("", text)


def cut_sections(system: str) -> str:
    """Take out the sections in tags that override an Agent's built-in prompts."""
    return _SECTIONS.sub("", system)


def estimate_tokens(text: str) -> int:
    """Estimate tokens without a vocabulary: a wide character is about one, four others are one."""
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide + 3) // 4


def fit(system: str, messages: Sequence[ChatMessage], context_tokens: int) -> tuple[str, list[ChatMessage]]:
    """Make a request fit: all of it, else the last message only, else that and the system text cut to size."""
    budget = int(context_tokens * CONTEXT_SHARE)
    if _tokens(system, messages) <= budget or not messages:
        return system, list(messages)
    last = dict(messages[-1])
    room = budget - estimate_tokens(last["content"])
    if room >= estimate_tokens(system):
        return system, [last]
    if room < budget // 5:
        room = budget // 5
    system = _cut(system, room)
    last["content"] = _cut(last["content"], budget - estimate_tokens(system))
    return system, [last]


def _tokens(system: str, messages: Sequence[ChatMessage]) -> int:
    return estimate_tokens(system) + sum(estimate_tokens(m["content"]) for m in messages)


def _cut(text: str, tokens: int) -> str:
    """Give the longest beginning of a text with at most so many tokens."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
