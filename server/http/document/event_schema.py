"""The JSON Schema of one server-sent event, as documents before OpenAPI 3.2 describe a stream of them."""

from __future__ import annotations

from typing import Any

__all__ = ["build_event_schema"]


def build_event_schema(data: dict[str, Any], *, end: str = "") -> dict[str, Any]:
    """Describe an event whose ``data`` is JSON of a schema; ``end`` is the text of the last one, which is none.

    >>> event_schema({"type": "object"})["required"]
    ['data']
    """
    told: dict[str, Any] = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {
        "type": "object",
        "description": "One event.",
        "properties": {
            "data": {"anyOf": [told, {"const": end}]} if end else told,
            "event": {"type": "string"},
            "id": {"type": "string", "description": "`RUN:NUMBER`, for `Last-Event-ID`."},
        },
        "required": ["data"],
    }
