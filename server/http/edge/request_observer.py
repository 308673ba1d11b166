"""The outermost middleware: it records every request, limits it, and completes the headers of its response."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.http.shared.body_limits import GENERAL_LIMITS, BodyLimits, LimitedBody
from ragflow_lg.server.http.shared.event_stream import CONNECTION, PART_BYTES, Connection, send_long
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.operations import client_network

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ragflow_lg.server.observability.operations import Operations

REQUEST_ID = b"x-request-id"
CLIENT_CLOSED_REQUEST = 499
"""Status in logs and metrics if the client disconnected before the request body was complete."""
UNLIMITED = frozenset({"/health", "/ready", "/metrics"})
"""Paths for operators, exempt from rate limits."""

_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""They prevent content sniffing, framing and scripts. A response may have its own."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

logger = logging.getLogger("ragflow_lg.access")


class RequestObserver:
    """Middleware around everything else. It looks at the headers of a request once, and once at those of its response.

    It records every request (id, span, status, duration), refuses requests that are too frequent or have an oversized
    head, limits bodies, removes trailing slashes from paths, and adds security headers.
    """

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        refuse: Callable[[Request, RequestError], Response],
        max_header_bytes: int = 32 * 1024,
        limits: BodyLimits = GENERAL_LIMITS,
    ) -> None:
        """Create the middleware. ``refuse`` builds the response to a refused request, in the format for its path."""
        self._app = app
        self._max_header_bytes = max_header_bytes
        self._limits = limits
        self._operations = operations
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The first of several headers with one name counts, as in the routes.
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        if scope["path"].endswith("/"):
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        method, path = scope["method"], scope["path"]
        network = client_network(scope["client"][0]) if scope.get("client") else ""
        notes = RequestNotes(_read_request_id(headers), scope["client"][0] if network else "")
        recorder = _ResponseRecorder(self._operations, send, notes.request_id, scope.get(CONNECTION))
        length = headers.get(b"content-length", b"")
        body = LimitedBody(receive, self._limits, int(length[:20]) if length.isdigit() else 0)
        inner = {**scope, **body.scope()}
        with use_notes(notes), self._operations.spans.span(method, scope["headers"]) as span:
            try:
                await self._select_app(inner, network)(inner, body.receive, recorder.send)
            except ClientDisconnect:
                recorder.status = CLIENT_CLOSED_REQUEST
            except Exception:
                # The error text may contain secrets, so it is only logged.
                logger.exception("%s %s failed", method, path)
                if recorder.has_begun:
                    raise
                error = RequestError("Internal server error; see the server log.", 100, status=500, has_data=True)
                await self._refuse(Request(scope), error)(scope, receive, recorder.send)
            finally:
                route = _get_route_path(inner)
                recorder.record_end(method, route)
                span.end(method, route, recorder.status)
                logger.info("%s %s %s %.3f s", method, path, recorder.status, recorder.seconds)

    def _select_app(self, scope: Scope, network: str) -> ASGIApp:
        """Return the application, or a refusal."""
        size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope.get("raw_path", b""))
        if size + len(scope["query_string"]) > self._max_header_bytes:
            self._operations.metrics.count_refusal("size")
            audit("request.too_large")
            error = RequestError(
                f"The headers and the address are larger than {self._max_header_bytes:,} bytes.", 431, status=431
            )
            return self._refuse(Request(scope), error)
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # Another server may see two requests in it.
            message = "A request cannot have both Content-Length and Transfer-Encoding."
            return Response(message, 400, {"connection": "close"}, "text/plain")
        if scope["path"] not in UNLIMITED and (wait_s := self._operations.addresses.wait_s(network)):
            self._operations.metrics.count_refusal("rate")
            audit("request.too_often", whose="address")
            return self._refuse(Request(scope), RateError("Too many requests from this address.", wait_s))
        return self._app


class _ResponseRecorder:
    def __init__(
        self, operations: Operations, send: Send, request_id: str, connection: Connection | None = None
    ) -> None:
        self._operations = operations
        self._send = send
        self._request_id = request_id
        self._connection = connection
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
            missing = [each for each in _SECURITY_HEADERS if each[0] not in own]
            message = {**message, "headers": [*headers, (REQUEST_ID, self._request_id.encode()), *missing]}
        elif self._is_stream and message.get("body"):
            self._begin_events()
        if len(message.get("body", b"")) > PART_BYTES:
            await send_long(message, self, self._send)
        else:
            await self._send(message)

    def _begin_events(self) -> None:
        if not self._has_events:
            self._has_events = True
            self._operations.metrics.begin_stream(time.monotonic() - self._began_s)

    def end(self) -> None:
        """End the response as if the client had disconnected."""
        if self._connection is not None:
            self._connection.abort()

    def record_end(self, method: str, route: str) -> None:
        """Record the end of the response."""
        self.seconds = time.monotonic() - self._began_s
        self._operations.metrics.count_request(method, route, self.status, self.seconds)
        if self._has_events:
            self._operations.metrics.end_stream()


def _read_request_id(headers: Mapping[bytes, bytes]) -> str:
    """Return the id from the header set by a proxy or client, or a new id."""
    header = headers.get(REQUEST_ID, b"")
    return header.decode("ascii") if _ID.fullmatch(header) else secrets.token_hex(16)


def _get_route_path(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", "") or "other"
