"""The guarded HTTP client of an MCP session.

If a request fails below the SDK, the SDK leaves the caller waiting. Therefore this transport either returns its own
JSON-RPC error or ends the session.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpcore
import httpx

from ragflow_lg.adapters.http.http_client import USER_AGENT, GuardedHttpClient, parse_url
from ragflow_lg.base.errors import ServiceError

MAX_CONNECTIONS = 128
"""Maximum number of concurrent requests of one session."""

STREAM_EXTRA_S = 5.0
"""Added to the read timeout of responses, so that the time limit of the call expires first."""

_ERROR_CODE = -32050
"""In the JSON-RPC range for applications, and not used by the SDK."""

_EVENTS = "text/event-stream"
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)
_HINT = "Check the server's url, headers and variables in the settings."

OnLost = Callable[[str, int | None], None]
"""Called when the session must end, with the reason and the id of a request that the server did not process."""


@dataclass(frozen=True, slots=True)
class McpHttpSettings:
    """Settings for one HTTP session. ``max_bytes`` limits a whole response, or each event of a stream."""

    url: str = field(repr=False)
    kind: Literal["sse", "streamable-http"]
    headers: Mapping[str, str] = field(repr=False)
    connect_s: float
    answer_s: float
    max_bytes: int

    @property
    def public_url(self) -> httpx.URL:
        """The URL without secrets, because the SDK and httpx write it to logs and errors."""
        return parse_url(self.url, "URL").copy_with(userinfo=b"", query=None, fragment=None)


@asynccontextmanager
async def open_http_client(
    http: GuardedHttpClient, settings: McpHttpSettings, on_lost: OnLost
) -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client that connects only to checked addresses. The caller enters it; the pool is closed on exit."""
    async with http.open_pool(MAX_CONNECTIONS) as pool:
        yield httpx.AsyncClient(
            transport=McpTransport(pool, settings, on_lost),
            headers={"User-Agent": USER_AGENT, **settings.headers, "Accept-Encoding": "identity"},
            auth=_credentials(settings),
            trust_env=False,
        )


def _credentials(settings: McpHttpSettings) -> httpx.Auth | None:
    """Return the credentials in the URL, unless a header contains others."""
    url = parse_url(settings.url, "URL")
    has_header = any(name.lower() == "authorization" for name in settings.headers)
    return httpx.BasicAuth(url.username, url.password) if url.userinfo and not has_header else None


class McpTransport(httpx.AsyncBaseTransport):
    """The transport for one session."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, settings: McpHttpSettings, on_lost: OnLost) -> None:
        self._pool = pool
        self._settings = settings
        self._on_lost = on_lost
        self._url = parse_url(settings.url, "URL")
        self._public_url = settings.public_url
        self._is_streamable = settings.kind == "streamable-http"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the session is notified of every failure."""
        message = _RequestMessage(request)
        host = repr(request.url.host)
        try:
            answer = await self._send(request)
        except ServiceError as refusal:
            self._on_lost(str(refusal), message.id)
            return self._error(message, str(refusal))
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            reason = f"Cannot connect to {host}: {error or 'no answer'}."
            self._on_lost(reason, message.id)
            return self._error(message, reason)
        except _FAILURES:
            return self._error(message, f"{host} did not answer in time, or closed the connection early.")
        headers = httpx.Headers(answer.headers)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        reason = ""
        if answer.status >= 400 and self._is_failure(request):
            reason = f"{host} answered {answer.status}. {_HINT}"
        elif encoding not in ("", "identity"):
            reason = f"{host} answered in an encoding that was not requested."
        if reason:
            await answer.aclose()
            if answer.status == 404 and message.method != "initialize":  # the server no longer knows the session
                self._on_lost(reason, message.id)
            return self._error(message, reason)
        is_stream = headers.get("content-type", "").lower().startswith(_EVENTS)
        body = _Body(self, answer, message, host, is_stream=is_stream)
        return httpx.Response(answer.status, headers=headers, stream=body)

    async def aclose(self) -> None:
        """Do nothing: the pool belongs to `open_http_client`."""

    async def _send(self, request: httpx.Request) -> httpcore.Response:
        settings = self._settings
        is_post = request.method == "POST"
        answer_s = settings.answer_s + STREAM_EXTRA_S if is_post else None
        timeout = {
            "connect": settings.connect_s,
            "pool": settings.answer_s,
            "write": settings.answer_s,
            "read": answer_s,
        }
        url = self._url if request.url == self._public_url else request.url
        return await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.content,
                extensions={"timeout": timeout},
            )
        )

    def _is_failure(self, request: httpx.Request) -> bool:
        """Return whether an error status is a failure; the GET stream of streamable HTTP is optional."""
        return request.method == "POST" or (request.method == "GET" and not self._is_streamable)

    def _error(self, message: _RequestMessage, reason: str) -> httpx.Response:
        """Return an error response in place of the server's."""
        if message.is_get and self._is_streamable:
            return httpx.Response(405)
        if self._is_streamable:
            return httpx.Response(200, json=message.error(reason)) if message.id is not None else httpx.Response(202)
        if message.method != "notifications/cancelled":
            self._on_lost(reason, None)
        return httpx.Response(202) if not message.is_get else httpx.Response(502)

    def end_body(self, message: _RequestMessage, reason: str, *, is_stream: bool) -> bytes:
        """Return an ending for an incomplete body: an error for the caller that is waiting for the response."""
        if not self._is_streamable:
            self._on_lost(reason, None)
            return b""
        if message.id is None:
            return b""
        text = json.dumps(message.error(reason))
        return f"event: message\ndata: {text}\n\n".encode() if is_stream else text.encode()

    @property
    def max_bytes(self) -> int:
        """Maximum size of a response or an event."""
        return self._settings.max_bytes


def _end_of_last_event(data: bytearray, start: int) -> int:
    """Return the end position of the last complete event; 0 if there is none."""
    ends = ((data.rfind(mark, start), len(mark)) for mark in _EVENT_ENDS)
    return max((position + length for position, length in ends if position >= 0), default=0)


class _RequestMessage:
    """The JSON-RPC message of a request."""

    def __init__(self, request: httpx.Request) -> None:
        message: Any = json.loads(request.content) if request.method == "POST" else {}
        self.is_get = request.method == "GET"
        self.id: Any = message.get("id") if "method" in message else None
        self.method: str = message.get("method", "")

    def error(self, reason: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": _ERROR_CODE, "message": reason}}


class _Body(httpx.AsyncByteStream):
    """A response body or an event stream; ends with an error if it is too large or interrupted."""

    def __init__(
        self,
        transport: McpTransport,
        answer: httpcore.Response,
        message: _RequestMessage,
        host: str,
        *,
        is_stream: bool,
    ) -> None:
        self._transport = transport
        self._answer = answer
        self._message = message
        self._host = host
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        chunks = self._events() if self._is_stream else self._text()
        async for chunk in chunks:
            yield chunk

    async def aclose(self) -> None:
        await self._answer.aclose()

    async def _text(self) -> AsyncGenerator[bytes]:
        buffer = bytearray()
        reason = ""
        try:
            async for chunk in self._answer.aiter_stream():
                buffer += chunk
                if len(buffer) > self._transport.max_bytes:
                    reason = self._too_large
                    break
        except _FAILURES:
            reason = f"{self._host} closed the connection early."
        yield self._transport.end_body(self._message, reason, is_stream=False) if reason else bytes(buffer)

    async def _events(self) -> AsyncGenerator[bytes]:
        """Yield complete events only, so that an error event can follow."""
        buffer = bytearray()
        has_ids = False
        reason = f"{self._host} ended the stream before answering."
        try:
            async for chunk in self._answer.aiter_stream():
                start = max(0, len(buffer) - 3)
                buffer += chunk
                if end := _end_of_last_event(buffer, start):
                    events = bytes(buffer[:end])
                    del buffer[:end]
                    has_ids = has_ids or events.startswith(b"id:") or b"\nid:" in events
                    yield events
                if len(buffer) > self._transport.max_bytes:
                    reason, has_ids = self._too_large, False
                    break
        except _FAILURES:
            pass
        # If events have ids, the SDK requests the rest of the stream itself.
        if not has_ids or self._message.is_get:
            yield self._transport.end_body(self._message, reason, is_stream=True)

    @property
    def _too_large(self) -> str:
        return f"The result is larger than the limit of {self._transport.max_bytes:,} bytes (max_result_bytes)."
