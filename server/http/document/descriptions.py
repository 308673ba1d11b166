"""Descriptions of routes that parse their own requests: parameters, bodies, responses and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ragflow_lg.server.http.document.chat_shapes import ChatError
from ragflow_lg.server.http.document.response_shapes import WebhookRefusal
from ragflow_lg.server.http.shared.answers import NotHere, Refusal
from ragflow_lg.server.http.shared.described_routes import Parameter, Surface, describe_query

Key: TypeAlias = Literal["ApiKey", "BetaKey", "AnyKey", "MetricsKey", ""]


class Route(Struct, frozen=True):
    """The description of a route."""

    surface: Surface = "envelope"
    answer: Any = None
    """Type of the response or, in an envelope, of ``data``. None if there is no content."""
    body: Any = None
    """Type of the request body; None if the route has no body."""
    body_kind: str = "application/json"
    is_body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    key: Key = "ApiKey"
    stream: str = ""
    """A short example stream, or ``""``."""
    frame: Any = None
    """Type of ``data`` in stream events."""
    raw: Mapping[str, str] = {}
    """Media types of non-JSON responses, each with a description."""
    status: int = 200
    more: Mapping[int, Any] = {}
    """Types of other responses, by status."""


def describe_pages() -> tuple[Parameter, ...]:
    """Describe the parameters of paginated lists. Invalid values are treated as missing."""
    return (
        describe_query("page", "Number of the page, from 1.", "integer", minimum=1, default=1),
        describe_query("page_size", "Rows per page.", "integer", minimum=1, maximum=100, default=30),
        describe_query("desc", "Whether to sort in descending order.", "boolean", default=True),
    )


_STATUS_DESCRIPTIONS = {
    400: "The request is malformed or invalid.",
    401: "Missing or invalid API key.",
    404: "Not found. Resources of other tenants look the same.",
    405: "The path does not support this method.",
    408: "The body did not arrive in time.",
    409: "The session is busy, or its canvas has changed.",
    413: "The body is too large.",
    422: "The body is nested too deeply.",
    429: "Too many requests; retry after `Retry-After` seconds.",
    431: "The headers and the address are too large.",
    500: "The server or the run failed.",
}
_COMMON_STATUSES = (404, 408, 413, 429, 431, 500)


def describe_refusals(surface: Surface, key: Key) -> dict[int, tuple[str, Any]]:
    """Return a route's refusal statuses, each with a description and a type."""
    statuses = {*_COMMON_STATUSES, 401} if key else {*_COMMON_STATUSES}
    shape: Any = Refusal
    if surface == "openai":
        shape, statuses = ChatError, statuses | {400, 409, 422}
    elif surface == "webhook":
        statuses |= {400}
    refusals: dict[int, tuple[str, Any]] = {
        status: (_STATUS_DESCRIPTIONS[status], shape) for status in sorted(statuses)
    }
    if surface != "openai":
        refusals[404] = ("No such path.", NotHere)
    if surface == "webhook":
        refusals[400] = ("The call is refused, or the turn failed.", WebhookRefusal)
    return refusals
