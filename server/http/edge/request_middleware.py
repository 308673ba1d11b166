"""The two middlewares around all others: one limits requests, the other records them and completes their headers."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.http.shared.request_bodies import BODY_S, LimitedBody
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.observability.operations import client_network

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ragflow_lg.server.observability.operations import Operations

MAX_HEADER_BYTES = 32 * 1024
"""Maximum total size of the request headers."""

UNLIMITED = frozenset({"/health", "/ready", "/metrics"})
"""Paths for operators, exempt from rate limits."""


class RequestLimits:
    """Middleware that refuses requests which are too frequent or have an oversized head, and limits bodies."""

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        refuse: Callable[[Request, RequestError], Response],
        max_body_bytes: int,
    ) -> None:
        """Create the middleware. ``refuse`` builds the response to a refused request, in the format for its path."""
        self._app = app
        self._operations = operations
        self._refuse = refuse
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := self._check(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            body = LimitedBody(receive, scope, self._max_body_bytes, BODY_S)
            await self._app(scope, body.receive, send)

    def _check(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, if its head is too large or ambiguous, or it comes too early."""
        size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope.get("raw_path", b""))
        if size + len(scope["query_string"]) > MAX_HEADER_BYTES:
            self._operations.metrics.count_refusal("size")
            audit("request.too_large")
            message = f"The headers and the address are larger than {MAX_HEADER_BYTES:,} bytes."
            return self._refuse(Request(scope), RequestError(message, 431, status=431))
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # Another server may see two requests in it.
            message = "A request cannot have both Content-Length and Transfer-Encoding."
            return Response(message, 400, {"connection": "close"}, "text/plain")
        network = client_network(scope["client"][0]) if scope.get("client") else ""
        if scope["path"] not in UNLIMITED and (wait_s := self._operations.addresses.wait_s(network)):
            self._operations.metrics.count_refusal("rate")
            audit("request.too_often", whose="address")
            return self._refuse(Request(scope), RateError("Too many requests from this address.", wait_s))
        return None


CLIENT_CLOSED_REQUEST = 499
"""Status in logs and metrics if the client disconnected before the request body was complete."""

_DEFAULT_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""They prevent content sniffing, framing and scripts, and that a browser repeats a stored 404 or 410 by itself.

A response may have its own.
"""

DEMO_HEADER = b"x-ragflow-demo"
"""Says with every response that the demo model answers: other forms of answers have no place for it."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHARED = re.compile(r"(?is)(?<=/shared/).+")
"""What opens a shared session, however a link has been changed on its way."""

logger = logging.getLogger("ragflow_lg.access")


class RequestLog:
    """Middleware around everything else: it records every request (id, span, status, duration) in log and metrics.

    It also removes trailing slashes from paths, and adds headers that are missing; those of a demo say so.
    """

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        refuse: Callable[[Request, RequestError], Response],
        *,
        is_demo: Callable[[], bool],
    ) -> None:
        """Create the middleware. ``refuse`` builds the response after an unexpected error."""
        self._app = app
        self._operations = operations
        self._refuse = refuse
        self._is_demo = is_demo

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        method, path, client = scope["method"], _SHARED.sub("***", scope["path"]), scope.get("client")
        given = Headers(scope=scope).get("x-request-id", "")  # of a proxy or client
        notes = RequestNotes(given if _ID.fullmatch(given) else secrets.token_hex(16), client[0] if client else "")
        headers = (*_DEFAULT_HEADERS, (DEMO_HEADER, b"true")) if self._is_demo() else _DEFAULT_HEADERS
        recorder = _ResponseRecorder(self._operations, send, notes.request_id, headers)
        with use_notes(notes), self._operations.spans.span(method, scope["headers"]) as span:
            try:
                await self._app(scope, receive, recorder.send)
            except ClientDisconnect:
                recorder.status = CLIENT_CLOSED_REQUEST
            except asyncio.CancelledError:  # the server ends; uvicorn would respond with a text
                if not recorder.has_begun:
                    error = RequestError("The server is shutting down.", 500, status=503, data=False, has_data=True)
                    await self._refuse(Request(scope), error)(scope, receive, recorder.send)
                raise
            except Exception:
                # The error text may contain secrets, so it is only logged.
                logger.exception("%s %s failed", method, path)
                if recorder.has_begun:
                    raise
                error = RequestError("Internal server error; see the server log.", 100, status=500, has_data=True)
                await self._refuse(Request(scope), error)(scope, receive, recorder.send)
            finally:
                route = getattr(scope.get("route"), "path", "") or "other"
                recorder.record_end(method, route)
                if span is not None:
                    span.end(method, route, recorder.status)
                logger.info("%s %s %s %.3f s", method, path, recorder.status, recorder.seconds)


class _ResponseRecorder:
    def __init__(
        self, operations: Operations, send: Send, request_id: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._operations = operations
        self._send = send
        self._request_id = request_id
        self._headers = headers
        self._began_s = time.monotonic()
        self._is_stream = False
        self._has_events = False
        self.has_begun = False
        """Whether the response has started."""
        self.status = 500
        self.seconds = 0.0

    async def send(self, message: Message) -> None:
        """Send the head of the response, with what is missing in it, or a part of its body."""
        if message["type"] == "http.response.start":
            self.status, self.has_begun = message["status"], True
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            own = dict(headers)
            self._is_stream = own.get(b"content-type", b"").startswith(b"text/event-stream")
            missing = [each for each in self._headers if each[0] not in own]
            message = {**message, "headers": [*headers, (b"x-request-id", self._request_id.encode()), *missing]}
        elif self._is_stream and message.get("body") and not self._has_events:
            self._has_events = True
            self._operations.metrics.begin_stream(time.monotonic() - self._began_s)
        await self._send(message)

    def record_end(self, method: str, route: str) -> None:
        self.seconds = time.monotonic() - self._began_s
        self._operations.metrics.count_request(method, route, self.status, self.seconds)
        if self._has_events:
            self._operations.metrics.end_stream()
