"""Headers that every response has, and middleware that refuses ambiguous requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""They prevent content sniffing, framing and scripts. A response may have its own."""


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
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *SECURITY_HEADERS]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        text = b"A request cannot have both Content-Length and Transfer-Encoding."
        await send({"type": "http.response.body", "body": text})
