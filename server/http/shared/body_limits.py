"""Limits on request bodies. Routes choose the size before they read a body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from starlette.datastructures import Headers

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope

    from ragflow_lg.server.settings import Settings

BodyKind = Literal["sign_in", "fields", "turn", "canvas", "webhook", "upload"]

_GENERAL = "max_body_bytes in [server]"
_ENVELOPE_BYTES = 1024**2
_SCOPE_KEY = "ragflow_lg.body_limit"
_ATTRIBUTE = "body_use"
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class ByteLimit(Struct, frozen=True):
    """A number of bytes, and the setting that it comes from."""

    bytes: int
    setting: str

    def check(self, size: int) -> None:
        """Check the size of a body, or of the part that has arrived.

        Raises:
            RequestError: if it is too large.
        """
        if size > self.bytes:
            message = f"The body is larger than {self.bytes:,} bytes, the limit {self.setting}."
            raise RequestError(message, 413, status=413)


class BodyLimits(Struct, frozen=True):
    """The limits of a server by kind of body."""

    general: ByteLimit
    kinds: Mapping[BodyKind, ByteLimit] = {}
    timeout_s: float = 60.0
    """How long a body may take to arrive."""

    def get(self, kind: BodyKind) -> ByteLimit:
        """Return the limit for a kind of body."""
        return self.kinds.get(kind, self.general)


def read_limits(settings: Settings) -> BodyLimits:
    """Return the limits in the settings."""
    general = ByteLimit(settings.server.max_body_bytes, _GENERAL)
    section = settings.server.body_bytes
    sizes: dict[BodyKind, int | None] = {
        "sign_in": section.sign_in,
        "fields": section.fields,
        "turn": section.turn,
        "canvas": section.canvas or settings.limits.canvas_bytes + _ENVELOPE_BYTES,
        "webhook": section.webhook,
        "upload": section.upload,
    }
    kinds: dict[BodyKind, ByteLimit] = {
        kind: ByteLimit(size, f"{kind} in [server.body_bytes]")
        for kind, size in sizes.items()
        if size is not None and size < general.bytes
    }
    return BodyLimits(general, kinds, settings.server.body_timeout_s)


class LimitedBody:
    """The body of one request, which is refused if it is too large or takes too long to arrive.

    It is read only up to the limit that its route chooses, and not at all if its declared length exceeds it. The limit
    is that of all bodies until the route chooses another one.
    """

    def __init__(self, receive: Receive, limits: BodyLimits, scope: Scope) -> None:
        """Initialize, and note the body in the scope of its request."""
        length = Headers(scope=scope).get("content-length", "")
        self._receive = receive
        self._limits = limits
        self._limit = limits.general
        self._declared_bytes = int(length[:20]) if length.isdecimal() else 0
        scope[_SCOPE_KEY] = self
        self._read_bytes = 0
        self._is_whole = False
        self._deadline = asyncio.get_running_loop().time() + limits.timeout_s

    def choose(self, kind: BodyKind) -> None:
        """Apply the limit for a kind of body."""
        self._limit = self._limits.get(kind)

    async def receive(self) -> Message:
        """Receive the next part of the body or, after it, what the client does.

        Raises:
            RequestError: if the body is too large or too slow.
        """
        if self._is_whole:
            return await self._receive()
        self._limit.check(self._declared_bytes)
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            timeout_s = self._limits.timeout_s
            raise RequestError(f"The body did not arrive within {timeout_s:g} s.", 408, status=408) from None
        self._is_whole = not message.get("more_body", False)
        self._read_bytes += len(message.get("body", b""))
        self._limit.check(self._read_bytes)
        return message


def limit_body(request: Request, kind: BodyKind) -> None:
    """Limit the size of the request's body. Call this before the body is read."""
    body = request.scope.get(_SCOPE_KEY)
    if isinstance(body, LimitedBody):
        body.choose(kind)


class BodyUse(Struct, frozen=True):
    """What the body of a route contains."""

    kind: BodyKind = "fields"
    has_query: bool = False
    """Whether its fields can also be sent as query parameters."""


def takes(kind: BodyKind, *, has_query: bool = False) -> Callable[[_Handler], _Handler]:
    """Mark a route with what its body contains, which determines its largest size."""

    def attach(handler: _Handler) -> _Handler:
        setattr(handler, _ATTRIBUTE, BodyUse(kind, has_query))
        return handler

    return attach


def use_of(handler: Callable[..., Any]) -> BodyUse:
    """Return what the body of a route contains: fields, unless it says otherwise."""
    return getattr(handler, _ATTRIBUTE, None) or BodyUse()
