"""Outgoing HTTP: requests, responses, and the Protocol of the one client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue

__all__ = ["HttpClient", "HttpRequest", "HttpResponse"]


class HttpRequest(Struct, frozen=True):
    """An outgoing HTTP request. Exactly one of ``json`` and ``form`` may be given."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    json: JsonValue = None
    form: Mapping[str, str] | None = None
    proxy: str = ""
    timeout_s: float = 60.0


class HttpResponse(NamedTuple):
    """An answer of any status. ``text`` is decoded by the declared charset, else UTF-8."""

    status: int
    headers: Mapping[str, str]
    text: str
    url: str


class HttpClient(Protocol):
    """The one client for everything outward, guarded against requests into private networks."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; redirects are not followed.

        Raises:
            ServiceError: for a refused address, a bad URL, a failed connection, a timeout, or an
                answer over the size limit.
        """
        ...
