"""What the server is, whether it lives, whether it can work, and its metrics. Nothing here tells of tenants."""

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

__all__ = ["build_metrics_app", "router"]

router = APIRouter(tags=["Operations"])


@router.get("/")
async def greet(request: Request) -> Response:
    """Tell what this is, and where to look further."""
    made: str = request.app.version
    return _json({"name": "ragflow-lg", "version": made, "openapi": "/openapi.json", "health": "/health"})


@router.get("/health")
async def health() -> Response:
    """Tell that the process lives and its event loop turns."""
    return _json({"status": "ok"})


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Tell whether requests can be answered, and which part fails: 503 if one does, or the server is about to stop."""
    if get_app_state(request).run_manager.is_draining:
        return _json({"status": "stopping", "parts": {}}, 503)
    found = await cast("Readiness", request.app.state.readiness).states()
    status = "ready" if set(found.values()) == {"ok"} else "failing"
    return _json({"status": status, "parts": found}, 200 if status == "ready" else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Give metrics to whoever has their key."""
    section = get_app_state(request).settings.server
    if section.metrics != "key":
        raise HTTPException(404)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    wanted = section.metrics_key.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), wanted.encode()):
        raise RequestError("Metrics need their key.", 401, status=401)
    return _metrics(cast("Operations", request.app.state.operations).metrics)


def build_metrics_app(metrics: Metrics) -> Starlette:
    """Make an application that gives metrics and nothing else, for a port of its own."""

    async def give(_: Request) -> Response:
        return _metrics(metrics)

    return Starlette(routes=[Route("/metrics", give)])


def _metrics(metrics: Metrics) -> Response:
    return Response(metrics.text(), media_type=CONTENT_TYPE)


def _json(body: dict[str, Any], status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(encode_json(body), status, media_type="application/json", headers=headers)
