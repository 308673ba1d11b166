"""Outgoing HTTP: requests, responses and the client Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue


class HttpRequest(Struct, frozen=True):
    """An outgoing HTTP request with at most one of ``json`` and ``form``."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    json: JsonValue = None
    form: Mapping[str, str] | None = None
    proxy: str = ""
    timeout_s: float = 60.0


class HttpResponse(NamedTuple):
    """A response with any status. ``text`` is decoded using the declared charset, or UTF-8 by default."""

    status: int
    headers: Mapping[str, str]
    text: str
    url: str


class HttpClient(Protocol):
    """The client for all outgoing requests. It prevents access to private networks."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; redirects are not followed.

        Raises:
            ServiceError: for a forbidden address, an invalid URL, a failed connection, a timeout, or a
                response over the size limit.
        """
        ...
