"""The web application: its routes, what every request passes, and how failures are told."""

from __future__ import annotations

import logging
import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import BusyError, RagflowLgError, RequestError, StreamError
from ragflow_lg.server.http import native
from ragflow_lg.server.http.edge import health_routes as health
from ragflow_lg.server.http.edge.readiness import Readiness
from ragflow_lg.server.http.edge.request_guards import BodyLimit, PlainPaths, SecurityHeaders
from ragflow_lg.server.http.edge.request_observer import Observing
from ragflow_lg.server.http.openai import openai_routes as openai
from ragflow_lg.server.http.ragflow import agent_routes as agents
from ragflow_lg.server.http.ragflow import completion_routes as completions
from ragflow_lg.server.http.ragflow import debug_routes as trials
from ragflow_lg.server.http.ragflow import embedded_routes as embedded
from ragflow_lg.server.http.ragflow import file_routes as files
from ragflow_lg.server.http.ragflow import session_routes as sessions
from ragflow_lg.server.http.ragflow import tag_routes as tags
from ragflow_lg.server.http.ragflow import template_routes as templates
from ragflow_lg.server.http.ragflow import trace_routes as traces
from ragflow_lg.server.http.ragflow import version_routes as versions
from ragflow_lg.server.http.shared.responses import json_bytes, refusal, request_error
from ragflow_lg.server.http.webhooks import webhook_routes as webhooks
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.metrics import RunMetrics
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.turns import Turns

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState

__all__ = ["make_app"]

_LIMITS = {408: "slow", 413: "size", 429: "busy"}
"""By status, which limit a request has met that its route refuses."""

logger = logging.getLogger(__name__)


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Give the document of all routes, made when it is first asked for."""
        if self.openapi_schema is None:
            from ragflow_lg.server.http.document.openapi_document import complete

            self.openapi_schema = complete(super().openapi())
        return self.openapi_schema


def make_app(app_state: AppState) -> FastAPI:
    """Make the application of opened parts. ``app.state.turns`` drains it."""
    app = _Application(
        title="ragflow-lg", version=version("ragflow-lg"), docs_url=None, redoc_url=None, redirect_slashes=False
    )
    section = app_state.settings.server
    operations = Operations(section, app_state.callbacks)
    app_state = replace(app_state, callbacks=(*app_state.callbacks, RunMetrics(operations.metrics)))
    app.state.app_state = app_state
    app.state.operations = operations
    app.state.readiness = Readiness(app_state)
    app.state.turns = Turns(app_state, operations.slots)
    # The fixed paths of completions come first: /agents/chat/… is no agent called chat.
    before = (completions, files, tags, templates, versions)
    for module in (*before, agents, sessions, openai, trials, traces, embedded, webhooks, native, health):
        app.include_router(module.router)
    app.add_middleware(BodyLimit, max_bytes=section.max_body_bytes, timeout_s=section.body_timeout_s)
    if origins := section.allow_origins:
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(Observing, operations=operations, refuse=_told, max_header_bytes=section.max_header_bytes)
    app.add_middleware(PlainPaths)
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(RagflowLgError, _refused)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(RequestValidationError, _invalid)
    return app


def _told(request: Request, error: RequestError) -> Response:
    if native.is_native(request.url.path):
        told = native.refuse(native.problem_of(error))
    else:
        told = openai.openai_refusal(error) if openai.is_openai(request.url.path) else refusal(error)
    if isinstance(error, BusyError):
        told.headers["Retry-After"] = str(math.ceil(error.retry_s))
        told.headers["x-should-retry"] = "true"
    return told


async def _refused(request: Request, error: Exception) -> Response:
    ours, path = cast("RagflowLgError", error), request.url.path
    refused = request_error(ours)
    if reason := _LIMITS.get(refused.status):
        cast("Operations", request.app.state.operations).metrics.count_refusal(reason)
        audit("request.refused", reason=reason, path=path)
    is_native = native.is_native(path) and not isinstance(ours, BusyError)
    told = native.refuse(native.problem_of(ours)) if is_native else _told(request, refused)
    if told.status_code >= 500 or refused.status >= 500:
        # A server that stops refuses what comes, and ends what runs: nothing is wrong with it.
        level = logging.WARNING if isinstance(ours, StreamError) else logging.ERROR
        logger.log(level, "%s %s: %s", request.method, path, ours)
    return told


async def _not_found(request: Request, error: Exception) -> Response:
    status = cast("HTTPException", error).status_code
    path = request.url.path
    if native.is_native(path):
        told = RequestError(f"There is no {request.method} {path} here.", status=status)
        return native.refuse(native.problem_of(told))
    if openai.is_openai(path):
        return openai.openai_refusal(RequestError(f"There is no {request.method} {path} here.", status, status=status))
    phrase = {404: "Not Found", 405: "Method Not Allowed"}.get(status, "Error")
    body = {"code": status, "message": f"{phrase}: {path}", "data": None, "error": phrase}
    return Response(json_bytes(body), status, media_type="application/json")


async def _invalid(request: Request, error: Exception) -> Response:
    if native.is_native(request.url.path):
        return native.refuse(native.invalid(cast("RequestValidationError", error), request.scope.get("route")))
    return _told(request, RequestError(f"The request does not fit: {error}.", 101))
