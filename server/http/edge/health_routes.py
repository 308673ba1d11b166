"""Greeting, liveness, readiness and metrics. None of them reveals anything about tenants."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.observability.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from ragflow_lg.server.http.edge.readiness import Readiness
    from ragflow_lg.server.observability.metrics import Metrics
    from ragflow_lg.server.observability.operations import Operations

router = APIRouter(tags=["Operations"])


@router.get("/")
async def greet(request: Request) -> Response:
    """Return the server's name and version, and links."""
    body = {"name": "ragflow-lg", "version": request.app.version, "openapi": "/openapi.json", "health": "/health"}
    return _json(body)


@router.get("/health")
async def health() -> Response:
    """Check that the process is alive and its event loop responds."""
    return _json({"status": "ok"})


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Check every part of the server. The status is 503 if a part fails or the server is shutting down."""
    if get_app_state(request).run_manager.is_draining:
        return _json({"status": "stopping", "parts": {}}, 503)
    parts = await cast("Readiness", request.app.state.readiness).check()
    status = "ready" if set(parts.values()) == {"ok"} else "failing"
    return _json({"status": status, "parts": parts}, 200 if status == "ready" else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return metrics in the Prometheus text format. Requires the `metrics_key` from the settings as a bearer token."""
    section = get_app_state(request).settings.server
    if section.metrics != "key":
        raise HTTPException(404)
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    expected = section.metrics_key.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), expected.encode()):
        raise RequestError("Missing or invalid metrics key.", 401, status=401)
    return _metrics(cast("Operations", request.app.state.operations).metrics)


def build_metrics_app(metrics: Metrics) -> Starlette:
    """Create an application that serves only metrics, for a separate port."""

    async def serve_metrics(_: Request) -> Response:
        return _metrics(metrics)

    return Starlette(routes=[Route("/metrics", serve_metrics)])


def _metrics(metrics: Metrics) -> Response:
    return Response(metrics.text(), media_type=CONTENT_TYPE)


def _json(body: dict[str, Any], status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(encode_json(body), status, media_type="application/json", headers=headers)
