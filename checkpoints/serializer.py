"""The serialiser of the savers below."""

from __future__ import annotations

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

__all__ = ["plain_serializer"]


def plain_serializer() -> JsonPlusSerializer:
    """Make a serialiser that gives data back as data, whatever it looks like."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)
