"""Limits on the size of request bodies, which routes choose before they read a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.server.settings import Settings

BodyKind = Literal["sign_in", "fields", "turn", "canvas", "webhook", "upload"]

_GENERAL = "max_body_bytes in [server]"
_ENVELOPE_BYTES = 1024**2
_SCOPE_KEY = "ragflow_lg.body_limit"


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
    return BodyLimits(general, kinds)


class ChosenLimit:
    """The limit of one request: that of all bodies, until its route chooses another one."""

    __slots__ = ("_limits", "current")

    def __init__(self, limits: BodyLimits) -> None:
        """Initialize."""
        self._limits = limits
        self.current = limits.general

    def choose(self, kind: BodyKind) -> None:
        """Apply the limit for a kind of body."""
        self.current = self._limits.get(kind)

    def scope(self) -> dict[str, ChosenLimit]:
        """Return the entry for the scope of the request."""
        return {_SCOPE_KEY: self}


def limit_body(request: Request, kind: BodyKind) -> None:
    """Limit the size of the request's body. Call this before the body is read."""
    chosen = request.scope.get(_SCOPE_KEY)
    if isinstance(chosen, ChosenLimit):
        chosen.choose(kind)
