"""How a route is described that reads its request by itself: what it takes, what it answers, whom it lets in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ragflow_lg.server.http.document.chat_shapes import ChatError
from ragflow_lg.server.http.document.response_shapes import NotHere, Refusal, WebhookRefusal

__all__ = [
    "Key",
    "Parameter",
    "Route",
    "Surface",
    "describe_header",
    "describe_pages",
    "describe_query",
    "describe_refusals",
]

Surface: TypeAlias = Literal["envelope", "plain", "listing", "openai", "webhook", "none"]
"""``envelope``: RAGFlow's ``code``, ``message`` and ``data``; ``plain``: no ``message``; ``listing``: and ``total``."""

Key: TypeAlias = Literal["ApiKey", "BetaKey", "AnyKey", "MetricsKey", ""]


class Parameter(Struct, frozen=True):
    """A value of the address or the head of a request."""

    name: str
    place: Literal["query", "header"]
    schema: Mapping[str, Any]
    description: str

    def shown(self) -> dict[str, Any]:
        """Give it as the document has it."""
        return {
            "name": self.name,
            "in": self.place,
            "required": False,
            "description": self.description,
            "schema": dict(self.schema),
        }


class Route(Struct, frozen=True):
    """What the document says of a route."""

    surface: Surface = "envelope"
    answer: Any = None
    """Type of what is answered: in the envelope of ``data``, None if there is none."""
    body: Any = None
    """Type of the body, None if there is none to send."""
    body_kind: str = "application/json"
    is_body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    key: Key = "ApiKey"
    stream: str = ""
    """A short example of the stream, ``""`` if there is none."""
    frame: Any = None
    """Type of what the ``data`` of its events holds."""
    raw: Mapping[str, str] = {}
    """Media types of answers that are not JSON, each with a description."""
    status: int = 200
    more: Mapping[int, Any] = {}
    """Types of answers of other statuses."""


def describe_query(name: str, description: str, kind: str = "string", **schema: Any) -> Parameter:
    """Describe a value of the address."""
    return Parameter(name, "query", {"type": kind, **schema}, description)


def describe_header(name: str, description: str, **schema: Any) -> Parameter:
    """Describe a header of the request."""
    return Parameter(name, "header", {"type": "string", **schema}, description)


def describe_pages() -> tuple[Parameter, ...]:
    """Describe how a list is given page by page; nonsense counts as not given."""
    return (
        describe_query("page", "From 1.", "integer", minimum=1, default=1),
        describe_query("page_size", "Rows of a page.", "integer", minimum=1, maximum=100, default=30),
        describe_query("desc", "Whether the newest come first.", "boolean", default=True),
    )


_TOLD = {
    400: "The request cannot be read, or does not fit.",
    401: "There is no API key that holds.",
    404: "There is none of this id, or no such path; what belongs to other tenants looks the same.",
    405: "The path does not take this method.",
    408: "The body did not arrive in time.",
    409: "The session is busy, or its canvas has changed.",
    413: "The body is too large.",
    422: "The body is too deep.",
    429: "Too many requests; ask again after `Retry-After` seconds.",
    431: "The head of the request is too large.",
    500: "The server, or the run, has failed.",
}
_ALWAYS = (404, 408, 413, 429, 431, 500)


def describe_refusals(surface: Surface, key: Key) -> dict[int, tuple[str, Any]]:
    """Give the statuses of refusals that a route can be answered with, each with a text and a type."""
    statuses = {*_ALWAYS, 401} if key else {*_ALWAYS}
    shape: Any = Refusal
    if surface == "openai":
        shape, statuses = ChatError, statuses | {400, 409, 422}
    elif surface == "webhook":
        statuses |= {400}
    told: dict[int, tuple[str, Any]] = {status: (_TOLD[status], shape) for status in sorted(statuses)}
    if surface != "openai":
        told[404] = ("There is no such path.", NotHere)
    if surface == "webhook":
        told[400] = ("The call is refused, or the turn has failed.", WebhookRefusal)
    return told
