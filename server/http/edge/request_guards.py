"""What every request passes through: the limits of bodies, and the headers of every answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyLimit", "SecurityHeaders", "StripTrailingSlash"]

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class BodyLimit:
    """Refuses bodies that are too large, those too that do not say so: they are read no further than to the limit.

    A body that takes too long is refused as well.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, timeout_s: float = 60.0) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        read, is_whole = 0, scope["type"] != "http"
        declared = 0 if is_whole else _declared(scope)
        too_large = RequestError(f"The body is larger than {self._max_bytes:,} bytes.", 413, status=413)
        until = asyncio.get_running_loop().time() + self._timeout_s

        async def limited() -> Message:
            nonlocal read, is_whole
            if is_whole:
                return await receive()
            if declared > self._max_bytes:
                raise too_large
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                told = f"The body did not arrive within {self._timeout_s:g} s."
                raise RequestError(told, 408, status=408) from None
            is_whole = not message.get("more_body", False)
            read += len(message.get("body", b""))
            if read > self._max_bytes:
                raise too_large
            return message

        await self._app(scope, limited, send)


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


class StripTrailingSlash:
    """Takes a path with a slash at its end for the one without."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["path"].endswith("/"):
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Adds headers that keep browsers from doing with an answer what it is not meant for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._app(scope, receive, adding if scope["type"] == "http" else send)
