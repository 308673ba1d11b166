"""Server-sent events as each surface writes them: RAGFlow's has no space behind ``data:``, OpenAI's has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.server.streaming.event_codec import to_json_bytes

__all__ = [
    "HEARTBEAT",
    "OPENAI_DONE",
    "RAGFLOW_DONE",
    "SSE_HEADERS",
    "native_frame",
    "openai_frame",
    "ragflow_frame",
    "retry_frame",
]

SSE_HEADERS: Mapping[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "Connection": "keep-alive",
    "X-Accel-Buffering": "no",
}
"""The last one keeps nginx from collecting the stream."""

RAGFLOW_DONE = b"data:[DONE]\n\n"
OPENAI_DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": ping\n\n"
"""A comment; readers of events pass it over, proxies see that the connection lives."""


def ragflow_frame(payload: Mapping[str, Any], event_id: str | int | None = None) -> bytes:
    r"""Write a frame as RAGFlow does; with ``event_id`` for a client that has asked for ids.

    >>> ragflow_frame({"code": 0, "data": "ü"}).decode()
    'data:{"code":0,"data":"ü"}\n\n'
    """
    head = b"" if event_id is None else f"id:{event_id}\n".encode()
    return b"%bdata:%b\n\n" % (head, to_json_bytes(payload))


def openai_frame(payload: Mapping[str, Any]) -> bytes:
    r"""Write a chunk as OpenAI does.

    >>> openai_frame({"object": "chat.completion.chunk"})
    b'data: {"object":"chat.completion.chunk"}\n\n'
    """
    return b"data: %b\n\n" % to_json_bytes(payload)


def native_frame(payload: Mapping[str, Any], event: str, event_id: str | int | None = None) -> bytes:
    r"""Write a frame of our own surface, with the event's name, and its number where it has one.

    Raises:
        ValueError: if the name cannot stand in a line.

    >>> native_frame({"content": "Hi"}, "message", 7)
    b'id: 7\nevent: message\ndata: {"content":"Hi"}\n\n'
    """
    if not event.isprintable():
        raise ValueError(f"An event cannot be called {event!r}.")
    head = b"" if event_id is None else f"id: {event_id}\n".encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.encode(), to_json_bytes(payload))


def retry_frame(pause_s: float) -> bytes:
    r"""Tell the client how long to wait before it connects again.

    >>> retry_frame(1.5)
    b'retry: 1500\n\n'
    """
    return b"retry: %d\n\n" % int(pause_s * 1000)
