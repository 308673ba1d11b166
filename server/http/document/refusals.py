"""The refusals of routes, by their response format."""

from __future__ import annotations

from typing import Any

from ragflow_lg.server.http.openai.openai_schemas import ChatError
from ragflow_lg.server.http.shared.described_routes import Description
from ragflow_lg.server.http.shared.route_schemas import NotHere, Refusal
from ragflow_lg.server.http.webhooks.webhook_routes import WebhookRefusal

_STATUS_DESCRIPTIONS = {
    400: "The request is malformed or invalid.",
    401: "Missing or invalid API key.",
    404: "Not found. Resources of other tenants look the same.",
    408: "The body did not arrive in time.",
    409: "The session is busy, or its canvas has changed.",
    413: "The body is too large.",
    422: "The body is nested too deeply.",
    429: "Too many requests; retry after `Retry-After` seconds.",
    431: "The headers and the address are too large.",
    500: "The server or the run failed.",
}
_COMMON_STATUSES = (404, 408, 413, 429, 431, 500)


def describe_refusals(route: Description) -> dict[int, tuple[str, Any]]:
    """Return a route's refusal statuses, each with a description and a type."""
    statuses = {*_COMMON_STATUSES, 401} if route.key else {*_COMMON_STATUSES}
    shape: Any = Refusal
    if route.surface == "openai":
        shape, statuses = ChatError, statuses | {400, 409, 422}
    elif route.surface == "webhook":
        statuses |= {400}
    refusals: dict[int, tuple[str, Any]] = {
        status: (_STATUS_DESCRIPTIONS[status], shape) for status in sorted(statuses)
    }
    if route.surface != "openai":
        refusals[404] = ("No such path.", NotHere)
    if route.surface == "webhook":
        refusals[400] = ("The call is refused, or the turn failed.", WebhookRefusal)
    return refusals
