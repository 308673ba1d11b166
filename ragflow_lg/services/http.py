"""Outgoing HTTP: requests, responses, the client Protocol, and the W3C trace context (``traceparent``)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue

_TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")


class HttpRequest(Struct, frozen=True):
    """An outgoing HTTP request with at most one of ``json``, ``form`` and ``body``."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict[str, str | Sequence[str]])
    """The texts of each key; a list repeats the key."""
    json: JsonValue = None
    form: Mapping[str, str | Sequence[str]] | None = None
    body: bytes | None = None
    """A body whose type is in the headers."""
    proxy: str = ""
    timeout_s: float = 60.0
    max_response_bytes: int | None = None
    """A limit below the one of the client."""
    text_charset: str = ""
    """The charset of a ``text/…`` response whose headers name none, instead of the one that it declares."""
    is_binary: bool = False
    """Whether the response is needed as bytes; its ``text`` is then empty."""


class HttpResponse(NamedTuple):
    """A response with any status. ``text`` is decoded with the charset that it declares, or as UTF-8."""

    status: int
    headers: Mapping[str, str]
    text: str
    url: str
    content: bytes = b""
    """The bytes, if the request asked for them."""


class HttpClient(Protocol):
    """The client for all outgoing requests. It prevents access to private networks."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; redirects are not followed.

        Raises:
            ServiceError: for a forbidden address, an invalid URL, a failed connection, a timeout, or a
                response over the size limit.
        """
        ...


def current_traceparent() -> str:
    """Return the current trace's ``traceparent`` header, or ``""`` outside a trace."""
    return _TRACEPARENT.get()


@contextmanager
def use_traceparent(header: str) -> Generator[None]:
    """Set the trace for outgoing requests inside the block, including requests from tasks started there.

    >>> with use_traceparent("00-aa-bb-01"):
    ...     current_traceparent()
    '00-aa-bb-01'
    """
    token = _TRACEPARENT.set(header)
    try:
        yield
    finally:
        _TRACEPARENT.reset(token)
