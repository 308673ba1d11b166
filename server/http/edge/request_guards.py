"""Middleware that limits request bodies, refuses ambiguous ones, normalizes paths and adds security headers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.body_limits import BodyLimits, ChosenLimit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class BodyLimit:
    """Middleware that refuses bodies that are too large or take too long to arrive.

    A body is read only up to the limit that its route chooses, and not at all if its declared length exceeds it.
    """

    def __init__(self, app: ASGIApp, limits: BodyLimits, timeout_s: float = 60.0) -> None:
        self._app = app
        self._limits = limits
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        read_bytes, is_whole = 0, scope["type"] != "http"
        declared_bytes = 0 if is_whole else _read_content_length(scope)
        chosen = ChosenLimit(self._limits)
        deadline = asyncio.get_running_loop().time() + self._timeout_s

        async def receive_limited() -> Message:
            nonlocal read_bytes, is_whole
            if is_whole:
                return await receive()
            chosen.current.check(declared_bytes)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RequestError(f"The body did not arrive within {self._timeout_s:g} s.", 408, status=408) from None
            is_whole = not message.get("more_body", False)
            read_bytes += len(message.get("body", b""))
            chosen.current.check(read_bytes)
            return message

        scope.update(chosen.scope())
        await self._app(scope, receive_limited, send)


def _read_content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


class RefuseTwoLengths:
    """Middleware that refuses requests whose body has two lengths: another server may see two requests in them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set[bytes]()
        if not {b"content-length", b"transfer-encoding"} <= names:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *_HEADERS]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        text = b"A request cannot have both Content-Length and Transfer-Encoding."
        await send({"type": "http.response.body", "body": text})


class StripTrailingSlash:
    """Middleware that removes trailing slashes from paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and scope["path"].endswith("/"):
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Middleware that adds headers to prevent content sniffing, framing and scripts, unless a response has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in own)]
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
