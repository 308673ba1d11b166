"""The middleware that limits requests: their heads, their bodies, and how often an address may send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RateError, RequestError
from ragflow_lg.server.http.shared.request_bodies import LimitedBody
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.operations import client_network

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ragflow_lg.server.observability.operations import Operations

UNLIMITED = frozenset({"/health", "/ready", "/metrics"})
"""Paths for operators, exempt from rate limits."""


class RequestLimits:
    """Middleware that refuses requests which are too frequent or have an oversized head, and limits bodies."""

    def __init__(
        self,
        app: ASGIApp,
        operations: Operations,
        refuse: Callable[[Request, RequestError], Response],
        max_header_bytes: int,
        max_body_bytes: int,
        body_timeout_s: float,
    ) -> None:
        """Create the middleware. ``refuse`` builds the response to a refused request, in the format for its path."""
        self._app = app
        self._operations = operations
        self._refuse = refuse
        self._max_header_bytes = max_header_bytes
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := self._check(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            body = LimitedBody(receive, scope, self._max_body_bytes, self._body_timeout_s)
            await self._app(scope, body.receive, send)

    def _check(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, if its head is too large or ambiguous, or it comes too early."""
        size = sum(len(name) + len(value) for name, value in scope["headers"]) + len(scope.get("raw_path", b""))
        if size + len(scope["query_string"]) > self._max_header_bytes:
            self._operations.metrics.count_refusal("size")
            audit("request.too_large")
            message = f"The headers and the address are larger than {self._max_header_bytes:,} bytes."
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
