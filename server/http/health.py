"""Whether the server lives, whether it can work, and its metrics. Nothing here tells of tenants."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.errors import RagflowLgError, RequestError
from server.http.answers import json_bytes
from server.http.auth import parts_of
from server.watch.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from server.parts import Parts
    from server.watch.metrics import Metrics
    from server.watch.operations import Operations

__all__ = ["metrics_app", "router"]

CHECK_S = 2.0
"""How long a part may take to answer."""

UNKNOWN_RUN = "0" * 32

router = APIRouter(tags=["Operations"])
logger = logging.getLogger(__name__)


@router.get("/health")
async def health() -> Response:
    """Tell that the process lives and its event loop turns."""
    return _json({"status": "ok"})


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Tell whether requests can be answered, and which part fails: 503 if one does, or the server is about to stop."""
    parts = parts_of(request)
    checks = {"database": _database, "checkpoints": _checkpoints, "journal": _journal}
    states = await asyncio.gather(*(_state(name, check, parts) for name, check in checks.items()))
    found = {name: state for name, state in zip(checks, states, strict=True) if state}
    is_stopping = bool(getattr(request.app.state, "is_stopping", False))
    status = "stopping" if is_stopping else "ready" if set(found.values()) == {"ok"} else "failing"
    return _json({"status": status, "parts": found}, 200 if status == "ready" else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Give metrics to whoever has their key."""
    section = parts_of(request).settings.server
    if section.metrics != "key":
        raise HTTPException(404)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    wanted = section.metrics_key.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), wanted.encode()):
        raise RequestError("Metrics need their key.", 401, status=401)
    return _metrics(cast("Operations", request.app.state.operations).metrics)


def metrics_app(metrics: Metrics) -> Starlette:
    """Make an application that gives metrics and nothing else, for a port of its own."""

    async def give(_: Request) -> Response:
        return _metrics(metrics)

    return Starlette(routes=[Route("/metrics", give)])


def _metrics(metrics: Metrics) -> Response:
    return Response(metrics.text(), media_type=CONTENT_TYPE)


async def _state(name: str, check: Callable[[Parts], Awaitable[bool]], parts: Parts) -> str:
    """Give ``ok``, ``failed`` or ``timed out``; ``""`` for what this server does not have."""
    try:
        async with asyncio.timeout(CHECK_S):
            return "ok" if await check(parts) else ""
    except TimeoutError:
        logger.error("not ready: the %s did not answer within %g s", name, CHECK_S)
        return "timed out"
    except (RagflowLgError, OSError) as error:
        logger.error("not ready: the %s fails: %s", name, error)
        return "failed"


async def _database(parts: Parts) -> bool:
    async with parts.database.reading() as reading:
        await reading.execute(text("SELECT 1"))
    return True


async def _checkpoints(parts: Parts) -> bool:
    await parts.store.runs.get(UNKNOWN_RUN)
    return True


async def _journal(parts: Parts) -> bool:
    """Ask the journal of the hub, if its runs have one."""
    journal: Any = getattr(parts.hub, "journal", None)
    if journal is None:
        return False
    await journal.head(UNKNOWN_RUN)
    return True


def _json(body: dict[str, Any], status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(json_bytes(body), status, media_type="application/json", headers=headers)
