"""The HTTP client of an MCP session: guarded like every other, and never silent about a failure.

The SDK leaves a caller waiting when a request fails below it. So a request for which there is no answer is answered
here, with an error of JSON-RPC, or the whole connection is told to be lost.
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

__all__ = ["Lost", "McpHttpSettings", "McpTransport", "mcp_http_client"]

MAX_CONNECTIONS = 128
"""How many requests of one session may be on their way."""

STREAM_SPARE_S = 5.0
"""How much longer than its limit an answer is waited for, so that the limit is what a caller meets."""

_ERROR_CODE = -32050
"""One that JSON-RPC leaves to its users, and the SDK does not use."""

_EVENTS = "text/event-stream"
_BORDERS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)
_REFUSED = "Check url, headers and variables of the server in the settings."

Lost = Callable[[str, int | None], None]
"""Told why a connection is of no more use, and the id of a request that surely was not carried out."""


@dataclass(frozen=True, slots=True)
class McpHttpSettings:
    """How a server is reached. ``max_bytes`` bounds an answer, in a stream each event."""

    url: str = field(repr=False)
    kind: Literal["sse", "streamable-http"]
    headers: Mapping[str, str] = field(repr=False)
    connect_s: float
    answer_s: float
    max_bytes: int

    @property
    def public_url(self) -> httpx.URL:
        """The URL without what may be secret: the SDK and httpx write it to logs and errors."""
        return parse_url(self.url, "URL").copy_with(userinfo=b"", query=None, fragment=None)


@asynccontextmanager
async def mcp_http_client(
    guarded: GuardedHttpClient, settings: McpHttpSettings, lost: Lost
) -> AsyncGenerator[httpx.AsyncClient]:
    """Give a client, not entered yet, whose connections are made to checked addresses only; close them."""
    async with guarded.open_pool(MAX_CONNECTIONS) as pool:
        yield httpx.AsyncClient(
            transport=McpTransport(pool, settings, lost),
            headers={"User-Agent": USER_AGENT, **settings.headers, "Accept-Encoding": "identity"},
            auth=_credentials(settings),
            trust_env=False,
        )


def _credentials(settings: McpHttpSettings) -> httpx.Auth | None:
    """Give those that stand in the URL, unless a header has others."""
    url = parse_url(settings.url, "URL")
    has_header = any(name.lower() == "authorization" for name in settings.headers)
    return httpx.BasicAuth(url.username, url.password) if url.userinfo and not has_header else None


class McpTransport(httpx.AsyncBaseTransport):
    """Sends the requests of one session."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, settings: McpHttpSettings, lost: Lost) -> None:
        self._pool = pool
        self._settings = settings
        self._lost = lost
        self._url = parse_url(settings.url, "URL")
        self._public_url = settings.public_url
        self._answers_in_place = settings.kind == "streamable-http"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; whatever fails, the session hears of it."""
        posted = _Posted(request)
        host = repr(request.url.host)
        try:
            answer = await self._send(request)
        except ServiceError as refused:
            self._lost(str(refused), posted.id)
            return self._error(posted, str(refused))
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            said = f"No connection to {host}: {error or 'no answer'}."
            self._lost(said, posted.id)
            return self._error(posted, said)
        except _FAILURES:
            said = f"{host} did not answer in time, or broke off."
            return self._error(posted, said)
        headers = httpx.Headers(answer.headers)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        said = ""
        if answer.status >= 400 and self._counts(request, answer.status):
            said = f"{host} answered {answer.status}. {_REFUSED}"
        elif encoding not in ("", "identity"):
            said = f"{host} answered in an encoding that was not asked for."
        if said:
            await answer.aclose()
            if answer.status == 404 and posted.method != "initialize":  # the server knows the session no more
                self._lost(said, posted.id)
            return self._error(posted, said)
        is_stream = headers.get("content-type", "").lower().startswith(_EVENTS)
        body = _Body(self, answer, posted, host, is_stream=is_stream)
        return httpx.Response(answer.status, headers=headers, stream=body)

    async def aclose(self) -> None:
        """Nothing: the pool is closed by who opened it."""

    async def _send(self, request: httpx.Request) -> httpcore.Response:
        settings = self._settings
        is_posted = request.method == "POST"
        answer_s = settings.answer_s + STREAM_SPARE_S if is_posted else None
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

    def _counts(self, request: httpx.Request, status: int) -> bool:
        """Whether a status means that something fails: the stream beside the answers is an offer only."""
        return request.method == "POST" or (request.method == "GET" and not self._answers_in_place)

    def _error(self, posted: _Posted, said: str) -> httpx.Response:
        """Answer in the server's place."""
        if posted.is_get and self._answers_in_place:
            return httpx.Response(405)
        if self._answers_in_place:
            return httpx.Response(200, json=posted.error(said)) if posted.id is not None else httpx.Response(202)
        if posted.method != "notifications/cancelled":
            self._lost(said, None)
        return httpx.Response(202) if not posted.is_get else httpx.Response(502)

    def failed(self, posted: _Posted, said: str, *, is_stream: bool) -> bytes:
        """Give what ends a body that has failed: an error for the caller who waits for it."""
        if not self._answers_in_place:
            self._lost(said, None)
            return b""
        if posted.id is None:
            return b""
        text = json.dumps(posted.error(said))
        return f"event: message\ndata: {text}\n\n".encode() if is_stream else text.encode()

    @property
    def max_bytes(self) -> int:
        """How large an answer or an event may be."""
        return self._settings.max_bytes


def _last_border(data: bytearray, start: int) -> int:
    """Give where the last whole event ends, 0 if none does."""
    found = ((data.rfind(border, start), len(border)) for border in _BORDERS)
    return max((at + length for at, length in found if at >= 0), default=0)


class _Posted:
    """What a request says as a message of JSON-RPC."""

    def __init__(self, request: httpx.Request) -> None:
        message: Any = json.loads(request.content) if request.method == "POST" else {}
        self.is_get = request.method == "GET"
        self.id: Any = message.get("id") if "method" in message else None
        self.method: str = message.get("method", "")

    def error(self, said: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": _ERROR_CODE, "message": said}}


class _Body(httpx.AsyncByteStream):
    """An answer, or event after event; what is too large or breaks off ends with an error."""

    def __init__(
        self, transport: McpTransport, answer: httpcore.Response, posted: _Posted, host: str, *, is_stream: bool
    ) -> None:
        self._transport = transport
        self._answer = answer
        self._posted = posted
        self._host = host
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        whole = self._events() if self._is_stream else self._text()
        async for part in whole:
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()

    async def _text(self) -> AsyncGenerator[bytes]:
        held = bytearray()
        said = ""
        try:
            async for chunk in self._answer.aiter_stream():
                held += chunk
                if len(held) > self._transport.max_bytes:
                    said = self._too_large
                    break
        except _FAILURES:
            said = f"{self._host} broke off."
        yield self._transport.failed(self._posted, said, is_stream=False) if said else bytes(held)

    async def _events(self) -> AsyncGenerator[bytes]:
        """Give whole events only, so that an error can stand behind them."""
        held = bytearray()
        has_ids = False
        said = f"{self._host} ended the stream before its answer."
        try:
            async for chunk in self._answer.aiter_stream():
                start = max(0, len(held) - 3)
                held += chunk
                end = _last_border(held, start)
                if end:
                    events = bytes(held[:end])
                    del held[:end]
                    has_ids = has_ids or events.startswith(b"id:") or b"\nid:" in events
                    yield events
                if len(held) > self._transport.max_bytes:
                    said, has_ids = self._too_large, False
                    break
        except _FAILURES:
            pass
        # With ids the SDK asks for the rest of the stream itself.
        if not has_ids or self._posted.is_get:
            yield self._transport.failed(self._posted, said, is_stream=True)

    @property
    def _too_large(self) -> str:
        return f"The answer is larger than the limit of {self._transport.max_bytes:,} bytes (max_result_bytes)."
