"""Server-sent events in each API's format, and the positions from which clients want to continue.

RAGFlow has no space after ``data:``, but OpenAI does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.base.errors import StreamPositionError
from ragflow_lg.server.streaming.event_codec import to_json_bytes

MAX_DIGITS = 15

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


def ragflow_frames(payloads: Sequence[Mapping[str, Any]], event_id: str | None = None) -> bytes:
    r"""Encode the frames of an event. The last one has its id: who has only the others gets all of them again.

    >>> ragflow_frames([{"a": 1}, {"b": 2}], "5f0c:7")
    b'data:{"a":1}\n\nid:5f0c:7\ndata:{"b":2}\n\n'
    """
    last = len(payloads) - 1
    return b"".join(ragflow_frame(each, event_id if index == last else None) for index, each in enumerate(payloads))


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


def queue_comment(run_id: str, session_id: str, position: int) -> bytes:
    r"""Encode a run's position in the queue as a comment, which event parsers ignore.

    >>> queue_comment("5f0c", "0c7f", 3)
    b': queued 3\n\n'
    """
    return b": queued %d\n\n" % position


def retry_frame(pause_s: float) -> bytes:
    r"""Encode how long a client should wait before reconnecting.

    >>> retry_frame(1.5)
    b'retry: 1500\n\n'
    """
    return b"retry: %d\n\n" % int(pause_s * 1000)


def parse_event_number(last_event_id: str | None, first_event: str | None = None) -> int:
    """Return the number of the event after which to read, or 0 to read all events.

    ``last_event_id`` is the header ``Last-Event-ID``, the last event received; ``first_event`` is ``?from=``, the first
    one wanted. A browser that reconnects repeats the URL and adds the header, so the header takes precedence.

    Raises:
        StreamPositionError: If a value is not a whole number.

    >>> parse_event_number("7"), parse_event_number(None, "7"), parse_event_number("9", "1"), parse_event_number("")
    (7, 6, 9, 0)
    """
    if last_event_id:
        return _number(last_event_id, "Last-Event-ID")
    if first_event:
        return max(_number(first_event, "from") - 1, 0)
    return 0


def event_id(run_id: str, number: int) -> str:
    """Return an event id that also contains the run, so that a client can resume with only the id.

    >>> event_id("5f0c", 7)
    '5f0c:7'
    """
    return f"{run_id}:{number}"


def parse_event_position(
    last_event_id: str | None, first_event: str | None = None, run_id: str = ""
) -> tuple[str, int]:
    """Return the run and the number of the event after which to read. The run is empty if none is specified.

    A ``Last-Event-ID`` may contain a run and a number, as formatted by `event_id`. A plain number refers to ``run_id``.

    Raises:
        StreamPositionError: If it is not a position, or a number is given without a run.

    >>> parse_event_position("5f0c:7"), parse_event_position(None, "3", "5f0c"), parse_event_position(None)
    (('5f0c', 7), ('5f0c', 2), ('', 0))
    """
    run, colon, number = (last_event_id or "").strip().rpartition(":")
    if colon:
        return run, parse_event_number(number or "?")
    after = parse_event_number(last_event_id, first_event)
    if (last_event_id or first_event) and not run_id:
        raise StreamPositionError(
            "The run is missing. Send the id of the last event as received, RUN:NUMBER, or add run_id."
        )
    return run_id, after


def _number(text: str, name: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise StreamPositionError(f"{name} must be the number of an event, not {text[:40]!r}.")
    return int(text)
