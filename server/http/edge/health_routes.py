"""Greeting, liveness, readiness and metrics. None of them reveals anything about tenants."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, cast

from fastapi import APIRouter
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ragflow_lg.base.errors import ConflictError, RagflowLgError, RequestError
from ragflow_lg.server.assembly.warm_up import is_loading
from ragflow_lg.server.http.shared.auth import get_app_state, get_operations
from ragflow_lg.server.http.shared.responses import respond_json
from ragflow_lg.server.observability.operations import CONTENT_TYPE
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.observability.operations import Metrics


router = APIRouter(tags=["Operations"])
CHECK_S = 2.0
"""Time limit for one check."""

FRESH_S = 1.0
"""Time for which results are reused, so that frequent probes cost nothing."""

NO_WORKERS = "none"
"""The state of the workers of a queue if there are none. The server still handles requests: runs wait for a worker."""

PROBE_ID = "0" * 32
"""The session to lease and the run to look up; neither exists."""

_NO_STORE = {"Cache-Control": "no-store"}
_WRITE = text("UPDATE alembic_version SET version_num = version_num")
"""Rewrites the only row of a table that exists in every one of our databases, without changing it."""

logger = logging.getLogger(__name__)


@router.get("/")
async def greet(request: Request) -> Response:
    """Return the server's name and version, and links."""
    body = {"name": "ragflow-lg", "version": request.app.version, "openapi": "/openapi.json", "health": "/health"}
    return respond_json(body, headers=_NO_STORE)


@router.get("/health")
async def health() -> Response:
    """Check that the process is alive and its event loop responds."""
    return respond_json({"status": "ok"}, headers=_NO_STORE)


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Check every part of the server. The status is 503 if a part fails or the server is starting or shutting down."""
    status, parts = await read_states(request)
    return respond_json({"status": status, "parts": parts}, 200 if status == "ready" else 503, _NO_STORE)


async def read_states(request: Request) -> tuple[str, Mapping[str, str]]:
    """Return whether the server is ``ready``, ``failing``, ``starting`` or ``stopping``, and the state of each part."""
    if get_app_state(request).run_manager.is_draining:
        return "stopping", {}
    if is_loading():  # it would keep the clients waiting whose runs it takes over
        return "starting", {}
    parts = await cast("Readiness", request.app.state.readiness).check()
    return "ready" if set(parts.values()) <= {"ok", NO_WORKERS} else "failing", parts


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return metrics in the Prometheus text format. Requires the `metrics_key` from the settings as a bearer token."""
    expected = get_app_state(request).settings.server.metrics_key.get_secret_value()
    if not expected:
        return PlainTextResponse("Metrics are off: set metrics_key or metrics_address in [server].", 404)
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), expected.encode()):
        raise RequestError("Missing or invalid metrics key.", 401, status=401)
    return _metrics(get_operations(request).metrics)


def build_metrics_app(metrics: Metrics) -> Starlette:
    """Create an application that serves only metrics, for a separate port."""

    async def serve_metrics(_: Request) -> Response:
        return _metrics(metrics)

    return Starlette(routes=[Route("/metrics", serve_metrics)])


def _metrics(metrics: Metrics) -> Response:
    return Response(metrics.text(), media_type=CONTENT_TYPE)


class Readiness:
    """The readiness checks of a process."""

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._lock = asyncio.Lock()
        self._states: Mapping[str, str] = {}
        self._expires_at = 0.0

    async def check(self) -> Mapping[str, str]:
        """Return ``ok``, ``failed`` or ``timed out`` for each part: ``database``, ``checkpoints``, ``journal``.

        With a queue, the part ``workers`` is ``none`` if there are none.
        """
        async with self._lock:
            if time.monotonic() >= self._expires_at:
                checks = {
                    "database": self._check_database,
                    "checkpoints": self._check_checkpoints,
                    "journal": self._check_journal,
                    **({"workers": self._check_workers} if self._app_state.queue is not None else {}),
                }
                states = await asyncio.gather(*(_run_check(name, check) for name, check in checks.items()))
                self._states = dict(zip(checks, states, strict=True))
                self._expires_at = time.monotonic() + FRESH_S
            return self._states

    async def _check_database(self) -> None:
        await self._app_state.database.execute(_WRITE)

    async def _check_checkpoints(self) -> None:
        """Lease a session briefly, as every run does first. Another replica's lease also proves that it works."""
        try:
            async with hold_lease(self._app_state.store.leases, PROBE_ID):
                await self._app_state.store.runs.get(PROBE_ID)
        except ConflictError:
            pass

    async def _check_journal(self) -> None:
        await self._app_state.run_manager.journal.head(PROBE_ID)

    async def _check_workers(self) -> str:
        queue = self._app_state.queue
        return "ok" if queue is None or await queue.has_worker() else NO_WORKERS


async def _run_check(name: str, check: Callable[[], Awaitable[str | None]]) -> str:
    """Return the state of a part: what its check returns, ``ok`` if that is nothing, or that it does not work."""
    try:
        async with asyncio.timeout(CHECK_S):
            return await check() or "ok"
    except TimeoutError:
        logger.error("not ready: %s did not answer within %g s", name, CHECK_S)
        return "timed out"
    except (RagflowLgError, OSError) as error:
        logger.error("not ready: %s failed: %s", name, error)
        return "failed"
