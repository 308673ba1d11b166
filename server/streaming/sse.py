"""Server-sent events in each API's format: RAGFlow has no space after ``data:``, but OpenAI does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.server.streaming.event_codec import to_json_bytes

SSE_HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "Connection": "keep-alive",
    "X-Accel-Buffering": "no",
}
"""``X-Accel-Buffering`` keeps nginx from buffering the stream."""

RAGFLOW_DONE = b"data:[DONE]\n\n"
OPENAI_DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": ping\n\n"
"""A comment, which event parsers ignore but which shows proxies that the connection is alive."""


def ragflow_frame(payload: Mapping[str, Any], event_id: str | int | None = None) -> bytes:
    r"""Encode a frame as RAGFlow does, with an ``event_id`` for clients that requested ids.

    >>> ragflow_frame({"code": 0, "data": "ü"}).decode()
    'data:{"code":0,"data":"ü"}\n\n'
    """
    head = b"" if event_id is None else f"id:{event_id}\n".encode()
    return b"%bdata:%b\n\n" % (head, to_json_bytes(payload))


def openai_frame(payload: Mapping[str, Any]) -> bytes:
    r"""Encode a chunk as OpenAI does.

    >>> openai_frame({"object": "chat.completion.chunk"})
    b'data: {"object":"chat.completion.chunk"}\n\n'
    """
    return b"data: %b\n\n" % to_json_bytes(payload)


def native_frame(payload: Mapping[str, Any], event: str, event_id: str | int | None = None) -> bytes:
    r"""Encode a native API frame with the event's name and, if given, its id.

    Raises:
        ValueError: If the name contains a line break or another control character.

    >>> native_frame({"content": "Hi"}, "message", 7)
    b'id: 7\nevent: message\ndata: {"content":"Hi"}\n\n'
    """
    if not event.isprintable():
        raise ValueError(f"Invalid event name {event!r}: control characters are not allowed.")
    head = b"" if event_id is None else f"id: {event_id}\n".encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.encode(), to_json_bytes(payload))


def retry_frame(pause_s: float) -> bytes:
    r"""Encode how long a client should wait before reconnecting.

    >>> retry_frame(1.5)
    b'retry: 1500\n\n'
    """
    return b"retry: %d\n\n" % int(pause_s * 1000)
