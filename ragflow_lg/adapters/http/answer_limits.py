"""Limits on what a model server sends, for the clients of several libraries."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import httpx

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum size of an answer that is not streamed."""
MAX_STREAM_BYTES = 128 * 1024 * 1024
"""Maximum size of a streamed answer, which repeats its frame for each token."""
MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Maximum size of one event in a stream."""
_EVENT_ENDS = {
    "text/event-stream": (b"\n\n", b"\r\n\r\n", b"\r\r"),
    "application/x-ndjson": (b"\n",),
    "application/vnd.amazon.eventstream": (),  # botocore limits its events to 24 MiB
}
"""What separates the events of a streamed answer, by content type."""
_LONGEST_END = 4


class AnswerTooLargeError(Exception):
    """A model server has sent more than a limit allows. The message completes a sentence about the model."""


class LimitedClient(httpx.AsyncClient):
    """A client that ends answers that are too large, and refuses compressed ones, whose size is unknown.

    A request raises `AnswerTooLargeError`; if the answer is streamed, reading it does.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, event_hooks=limit_hooks())


def limit_hooks(max_event_bytes: int = 0) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Return the ``event_hooks`` of an asynchronous client of httpx or httpx2 that limit its answers.

    With ``max_event_bytes``, streams are sessions: each event has this limit, and all of them together have none.
    """
    return {"request": [_refuse_compression], "response": [partial(_limit, max_event_bytes)]}


async def _refuse_compression(request: Any) -> None:
    request.headers["Accept-Encoding"] = "identity"


async def _limit(max_event_bytes: int, response: Any) -> None:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise AnswerTooLargeError(f"sent an answer compressed by {encoding[:20]!r}, which was not accepted")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    library = type(response).__module__.partition(".")[0]
    response.stream = _limited_body(library)(response.stream, _Meter(kind, max_event_bytes))


@lru_cache
def _limited_body(library: str) -> Callable[[Any, _Meter], Any]:
    """Return a class of limited bodies for responses of ``httpx`` or ``httpx2``, which accept only their own."""
    base: type[httpx.AsyncByteStream] = import_module(library).AsyncByteStream

    class LimitedBody(base):
        def __init__(self, body: httpx.AsyncByteStream, meter: _Meter) -> None:
            self._body = body
            self._meter = meter

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._body:
                    self._meter.add(chunk)
                    yield chunk
            finally:
                # Some libraries leave a stream that nobody reads any longer open.
                await self._body.aclose()

        async def aclose(self) -> None:
            await self._body.aclose()

    return LimitedBody


class _Meter:
    """Counts the bytes of a body with a content type."""

    def __init__(self, kind: str, max_event_bytes: int) -> None:
        self._ends = _EVENT_ENDS.get(kind, ())
        self._max_event_bytes = max_event_bytes or MAX_EVENT_BYTES
        self._limit = MAX_ANSWER_BYTES
        if kind in _EVENT_ENDS:
            self._limit = sys.maxsize if max_event_bytes else MAX_STREAM_BYTES
        self._size = self._event_size = 0
        self._tail = b""

    def add(self, chunk: bytes) -> None:
        """Count a chunk.

        Raises:
            AnswerTooLargeError: if the body, or one of its events, is too large.
        """
        self._size += len(chunk)
        if self._size > self._limit:
            raise AnswerTooLargeError(f"sent an answer of more than {self._limit:,} bytes")
        if not self._ends:
            return
        text = self._tail + chunk
        end = max(text.rfind(mark) for mark in self._ends)
        self._event_size = self._event_size + len(chunk) if end < 0 else len(text) - end
        if self._event_size > self._max_event_bytes:
            raise AnswerTooLargeError(f"sent an event of more than {self._max_event_bytes:,} bytes")
        self._tail = text[-(_LONGEST_END - 1) :]
