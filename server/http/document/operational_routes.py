"""Descriptions of the routes for operators, which are not in an API's format."""

from __future__ import annotations

from typing import Literal

from ragflow_lg.server.http.shared.described_routes import Description
from ragflow_lg.server.http.shared.route_schemas import LazyModel


class Greeting(LazyModel):
    """Name and version of the server, and links."""

    name: Literal["ragflow-lg"]
    version: str
    openapi: Literal["/openapi.json"]
    health: Literal["/health"]


class Health(LazyModel):
    """The process is alive."""

    status: Literal["ok"]


class Readiness(LazyModel):
    """Whether the server can handle requests."""

    status: Literal["ready", "starting", "stopping", "failing"]
    parts: dict[str, Literal["ok", "failed", "timed out", "late", "none"]]


OPERATIONAL_ROUTES = {
    "GET /": Description(surface="none", answer=Greeting),
    "GET /health": Description(surface="none", answer=Health),
    "GET /ready": Description(surface="none", answer=Readiness, more={503: Readiness}),
    "GET /metrics": Description(
        surface="none", key="MetricsKey", raw={"text/plain": "Metrics in Prometheus's text format."}
    ),
}
