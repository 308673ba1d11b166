"""What a model extracts from an exchange: the request, and the memories in the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.memories import Exchange, MemoryType

MAX_PER_TYPE = 5
"""Maximum number of memories of one type from one exchange."""

_MAX_CONTENT_CHARS = 2_000


class Extracted(Struct, frozen=True):
    """One memory from an exchange. Times are in ISO 8601, or ``""``."""

    type: MemoryType
    content: str
    valid_at: str
    invalid_at: str = ""


def extraction_request(prompt: str, exchange: Exchange, types: Sequence[MemoryType], now: str) -> ChatRequest:
    """Return the request to a model. ``now`` is the local time."""
    system = fill_prompt(prompt, {"types": ", ".join(types), "now": now, "most": str(MAX_PER_TYPE)})
    text = f"User: {exchange.question}\n\nAssistant: {exchange.answer}"
    return ChatRequest(system, ({"role": "user", "content": text},), {"temperature": 0.1})


def read_extraction(answer: Any, types: Sequence[MemoryType], now: str) -> list[Extracted]:
    """Return the memories in a parsed answer. What is not understood is left out.

    Raises:
        ServiceError: if the answer is no JSON object.
    """
    if not isinstance(answer, dict):
        raise ServiceError("The model that extracts memories did not answer with a JSON object.")
    return list(_entries(cast("dict[str, Any]", answer), types, now))


def _entries(answer: dict[str, Any], types: Sequence[MemoryType], now: str) -> Iterable[Extracted]:
    for type_ in types:
        entries: Any = answer.get(type_)
        for entry in cast("list[Any]", entries)[:MAX_PER_TYPE] if isinstance(entries, list) else []:
            fields: dict[str, Any] = {"content": entry} if isinstance(entry, str) else entry
            content = fields.get("content") if isinstance(cast("Any", fields), dict) else None
            if isinstance(content, str) and content.strip():
                valid_at = _time(fields.get("valid_at")) or now
                yield Extracted(type_, content.strip()[:_MAX_CONTENT_CHARS], valid_at, _time(fields.get("invalid_at")))


def _time(value: Any) -> str:
    """Return a time of a model in ISO 8601, or ``""``."""
    try:
        return datetime.fromisoformat(value).isoformat() if isinstance(value, str) else ""
    except ValueError:
        return ""
