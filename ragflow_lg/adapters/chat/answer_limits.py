"""Limits on what a model server sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum size of an answer that is not streamed."""
MAX_STREAM_BYTES = 128 * 1024 * 1024
"""Maximum size of a streamed answer, which repeats its frame for each token."""
MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Maximum size of one event in a stream."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END = 4


class AnswerTooLargeError(Exception):
    """A model server has sent more than a limit allows. The message completes a sentence about the model."""


class LimitedClient(httpx.AsyncClient):
    """A client that ends answers that are too large, and refuses compressed ones, whose size is unknown."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send a request.

        Raises:
            AnswerTooLargeError: if the response is compressed, or not streamed and too large. A streamed one raises
                it while it is read.
        """
        request.headers["Accept-Encoding"] = "identity"
        response = await super().send(request, stream=True, **options)
        try:
            encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding != "identity":
                raise AnswerTooLargeError(f"sent an answer compressed by {encoding[:20]!r}, which was not accepted")
            is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _LimitedBody(response.stream, is_stream=is_stream)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


class _LimitedBody(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream, *, is_stream: bool) -> None:
        self._body = body
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        limit = MAX_STREAM_BYTES if self._is_stream else MAX_ANSWER_BYTES
        size = event_size = 0
        tail = b""
        async for chunk in self._body:
            size += len(chunk)
            event_size, tail = _measure_event(event_size, tail, chunk)
            if size > limit:
                raise AnswerTooLargeError(f"sent an answer of more than {limit:,} bytes")
            if self._is_stream and event_size > MAX_EVENT_BYTES:
                raise AnswerTooLargeError(f"sent an event of more than {MAX_EVENT_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


def _measure_event(size: int, tail: bytes, chunk: bytes) -> tuple[int, bytes]:
    """Return the size of the event that a chunk leaves open, and the end of the text for the next chunk."""
    text = tail + chunk
    end = max(text.rfind(mark) for mark in _EVENT_ENDS)
    return (size + len(chunk) if end < 0 else len(text) - end), text[-(_LONGEST_END - 1) :]
