"""Middleware that records every request (id, span, status, duration) and limits the rate of each address."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.http.shared.event_stream import LATER, EventStream
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.operations import client_network

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ragflow_lg.server.observability.operations import Operations

REQUEST_ID = "x-request-id"
CLIENT_CLOSED_REQUEST = 499
"""Status in logs and metrics if the client disconnected before the request body was complete."""
UNLIMITED = frozenset({"/health", "/ready", "/metrics"})
"""Paths for operators, exempt from rate limits."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

logger = logging.getLogger("ragflow_lg.access")


class RequestObserver:
    """Middleware that records every request, and refuses requests that are too frequent or have an oversized head."""

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        refuse: Callable[[Request, RequestError], Response],
        max_header_bytes: int = 32 * 1024,
    ) -> None:
        """Create the middleware. ``refuse`` builds the response to a refused request, in the format for its path."""
        self._app = app
        self._max_header_bytes = max_header_bytes
        self._operations = operations
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        notes = RequestNotes(_read_request_id(scope["headers"]), client[0] if client else "")
        recorder = _ResponseRecorder(self._operations, send, notes.request_id)
        notes.queue = self._find_queue(scope)
        streams: list[EventStream] = []
        inner, route = {**scope, LATER: streams}, ""
        with use_notes(notes), self._operations.spans.span(scope["method"], scope["headers"]) as span:
            try:
                if notes.queue:
                    await asyncio.sleep(0)  # it waits in this queue before anything is computed for it
                await self._select_app(scope)(inner, receive, recorder.send)
                route, inner = _get_route_path(inner), scope  # what was put into the scope is not needed any more
                for stream in streams:
                    await stream.send_body(receive, recorder.send)
            except ClientDisconnect:
                recorder.status = CLIENT_CLOSED_REQUEST
            except Exception:
                # The error text may contain secrets, so it is only logged.
                logger.exception("%s %s failed", scope["method"], scope["path"])
                if recorder.has_begun:
                    raise
                error = RequestError("Internal server error; see the server log.", 100, status=500, has_data=True)
                await self._refuse(Request(scope), error)(scope, receive, recorder.send)
            finally:
                route = route or _get_route_path(inner)
                recorder.end(scope["method"], route)
                span.end(scope["method"], route, recorder.status)
                logger.info("%s %s %s %.3f s", scope["method"], scope["path"], recorder.status, recorder.seconds)

    def _find_queue(self, scope: Scope) -> str:
        """Return whose calls a request belongs to before it is authenticated. Probes do not wait for others."""
        if scope["path"] in UNLIMITED:
            return ""
        credential = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        address = client_network(scope["client"][0]) if scope.get("client") else "unknown"
        return self._operations.tenants.find(credential) or f"address {address}"

    def _select_app(self, scope: Scope) -> ASGIApp:
        """Return the application, or a refusal."""
        size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope.get("raw_path", b""))
        if size + len(scope["query_string"]) > self._max_header_bytes:
            self._operations.metrics.count_refusal("size")
            audit("request.too_large")
            error = RequestError(
                f"The headers and the address are larger than {self._max_header_bytes:,} bytes.", 431, status=431
            )
            return self._refuse(Request(scope), error)
        if scope["path"] in UNLIMITED:
            return self._app
        address = client_network(scope["client"][0]) if scope.get("client") else ""
        if wait_s := self._operations.addresses.wait_s(address):
            self._operations.metrics.count_refusal("rate")
            audit("request.too_often", whose="address")
            return self._refuse(Request(scope), RateError("Too many requests from this address.", wait_s))
        return self._app


class _ResponseRecorder:
    def __init__(self, operations: Operations, send: Send, request_id: str) -> None:
        self._operations = operations
        self._send = send
        self._request_id = request_id
        self._began = time.monotonic()
        self._is_stream = False
        self._has_events = False
        self.has_begun = False
        """Whether the response has started."""
        self.status = 500
        self.seconds = 0.0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.has_begun = message["status"], True
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            self._is_stream = any(n == b"content-type" and v.startswith(b"text/event-stream") for n, v in headers)
            message = {**message, "headers": [*headers, (REQUEST_ID.encode(), self._request_id.encode())]}
        elif self._is_stream and not self._has_events and message.get("body"):
            self._has_events = True
            self._operations.metrics.begin_stream(time.monotonic() - self._began)
        await self._send(message)

    def end(self, method: str, route: str) -> None:
        self.seconds = time.monotonic() - self._began
        self._operations.metrics.count_request(method, route, self.status, self.seconds)
        if self._has_events:
            self._operations.metrics.end_stream()


def _read_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id from the header set by a proxy or client, or a new id."""
    header = next((value for name, value in headers if name == REQUEST_ID.encode()), b"")
    return header.decode("ascii") if _ID.fullmatch(header) else secrets.token_hex(16)


def _get_route_path(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", "") or "other"
