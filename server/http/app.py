"""The web application: its routes, its middleware and its error handlers."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.base.errors import BusyError, QuotaError, RagflowLgError, RateError, RequestError, StreamError
from ragflow_lg.base.extras import require
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.component.integration import find_integrations
from ragflow_lg.server.agents.agent_versions import check_templates
from ragflow_lg.server.http.edge import health_routes
from ragflow_lg.server.http.edge.health_routes import Readiness
from ragflow_lg.server.http.edge.request_middleware import DEMO_HEADER, RequestLimits, RequestLog
from ragflow_lg.server.http.native import (
    native_canvas_routes,
    native_feedback_routes,
    native_inspection_routes,
    native_run_routes,
    native_schedule_routes,
    native_session_routes,
    native_settings_routes,
    native_shared_routes,
    native_tenant_routes,
)
from ragflow_lg.server.http.native.problem_details import (
    describe_fault,
    format_location,
    is_native_path,
    respond_problem,
    to_problem,
    to_validation_problem,
)
from ragflow_lg.server.http.openai import openai_routes, response_routes
from ragflow_lg.server.http.openai.openai_routes import is_openai_path, respond_openai_error
from ragflow_lg.server.http.page.page_files import PageFiles
from ragflow_lg.server.http.ragflow import (
    agent_routes,
    completion_routes,
    dataset_routes,
    debug_routes,
    deployment_routes,
    embedded_routes,
    file_routes,
    older_routes,
    session_routes,
    system_routes,
    version_routes,
)
from ragflow_lg.server.http.ragflow.missing_parts import refuse_missing
from ragflow_lg.server.http.ragflow_ui import account_routes
from ragflow_lg.server.http.ragflow_ui.front_end import FrontEndFiles, check_build
from ragflow_lg.server.http.shared.auth import VISITOR_HEADER, get_operations
from ragflow_lg.server.http.shared.responses import respond_error, respond_json, to_request_error
from ragflow_lg.server.http.webhooks import webhook_routes
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.turns import Turns

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState

_ABOUT = """\
Agents built from RAGFlow canvases. Routes under `/native/v1` are the native API and use HTTP statuses.
Routes under `/api/v1` are RAGFlow's API: nearly all responses have the HTTP status 200, and `code` is 0 on success.
Routes under `/v1` and `/api/v1/agents_openai` are OpenAI-compatible.

Every response has the header `X-Request-Id`, which also appears in the server log. A request may set it.
With `--model demo`, it also has `X-RAGFlow-Demo: true`.
"""
RETRY_S = 60.0
"""Longest wait after which OpenAI's clients should repeat a refused request themselves."""

_LIMITS = {408: "slow", 413: "size", 429: "busy"}
"""The limit that a refused request has exceeded, by response status."""

_ROUTERS = (
    # Fixed paths come first: /agents/chat/completions must not match an agent called `chat`.
    completion_routes.router,
    file_routes.router,
    agent_routes.template_router,
    debug_routes.editor_router,
    version_routes.router,
    agent_routes.router,
    session_routes.router,
    openai_routes.router,
    response_routes.router,
    debug_routes.router,
    debug_routes.trace_router,
    embedded_routes.router,
    webhook_routes.router,
    deployment_routes.router,
    dataset_routes.router,
    dataset_routes.document_router,
    deployment_routes.mcp_router,
    deployment_routes.empty_router,
    older_routes.router,
    system_routes.router,
    system_routes.older_router,
    native_run_routes.router,
    native_session_routes.router,
    native_feedback_routes.router,
    native_shared_routes.router,
    native_shared_routes.shared_router,
    native_inspection_routes.router,
    native_inspection_routes.component_router,
    native_canvas_routes.list_router,
    native_canvas_routes.version_router,
    native_canvas_routes.router,
    native_tenant_routes.quota_router,
    native_tenant_routes.file_router,
    native_tenant_routes.key_router,
    native_schedule_routes.router,
    native_schedule_routes.pause_router,
    native_settings_routes.needs_router,
    native_settings_routes.router,
    health_routes.router,
)

_UI_ROUTERS = (
    account_routes.sign_in_router,
    account_routes.router,
    account_routes.older_router,
    deployment_routes.ui_router,
)

_UNKNOWN_WORD = re.compile(r"/api/v1/agents/(?![0-9a-f]{32}$)[^/]+")
"""A path that matches the routes of an agent, although no agent has such an id: a missing route, not a wrong method."""

logger = logging.getLogger(__name__)


def make_app(app_state: AppState) -> FastAPI:
    """Create the application from opened server parts. ``app.state.turns`` drains its runs.

    If there is an MCP server, ``app.state.mcp`` must be running while the application serves.

    Raises:
        SettingsError: if a package for a part is not installed, or a folder of the settings does not contain it.
    """
    app = FastAPI(
        title="ragflow-lg",
        version=version("ragflow-lg"),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    section = app_state.settings.server
    operations = Operations(section, app_state.callbacks)
    app.state.app_state = app_state
    app.state.operations = operations
    app.state.readiness = Readiness(app_state)
    app.state.turns = Turns(app_state, operations)
    integrations = find_integrations().integrations.values()
    _add_routes(app, (*_ROUTERS, *(each.load(place) for each in integrations for place in each.routes)))
    check_templates(section.templates)
    if section.mcp:
        require("mcp", "The MCP server ([server] mcp, --mcp)")
        from ragflow_lg.server.http.mcp.mcp_endpoint import McpEndpoint

        app.state.mcp = McpEndpoint()
        app.router.routes.append(Route("/mcp", app.state.mcp, include_in_schema=False))
    if section.ragflow_ui is not None:
        check_build(section.ragflow_ui)
        _add_routes(app, _UI_ROUTERS)
        app.add_middleware(FrontEndFiles, folder=section.ragflow_ui, embedding_origins=section.allow_origins)
    app.add_middleware(
        PageFiles,
        has_root=section.ragflow_ui is None,
        frame_origins=section.frame_origins,
        find_shared=partial(native_shared_routes.find_shared, app_state),
    )
    if origins := section.allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=[VISITOR_HEADER, DEMO_HEADER.decode()],
        )
    app.add_middleware(
        RequestLimits, operations=operations, refuse=_respond_refusal, max_body_bytes=section.max_body_bytes
    )
    app.add_middleware(RequestLog, operations=operations, refuse=_respond_refusal, is_demo=lambda: app_state.is_demo)
    app.add_exception_handler(RagflowLgError, _handle_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    return app


def _add_routes(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Add the routes of routers. They are complete: none needs a prefix or defaults of the application.

    ``include_router`` would analyse the parameters of every route again, at the first request of each application.
    """
    for router in routers:
        app.router.routes.extend(router.routes)


def _respond_refusal(request: Request, error: RequestError) -> Response:
    """Build the response to a refused request, in the format for its path."""
    if is_native_path(request.url.path):
        response = respond_problem(to_problem(error))
    else:
        is_openai = current_notes().is_openai or is_openai_path(request.url.path)
        response = respond_openai_error(error) if is_openai else respond_error(error)
    if isinstance(error, BusyError):
        response.headers["Retry-After"] = str(math.ceil(error.retry_s))
        is_soon = not isinstance(error, QuotaError) or 0 < error.renews_s <= RETRY_S
        response.headers["x-should-retry"] = "true" if is_soon else "false"
    return response


async def _handle_error(request: Request, error: Exception) -> Response:
    failure, path = cast("RagflowLgError", error), request.url.path
    refusal = to_request_error(failure)
    reason = "rate" if isinstance(failure, RateError) else _LIMITS.get(refusal.status)
    reason = "quota" if isinstance(failure, QuotaError) else reason
    if reason is not None:
        get_operations(request).metrics.count_refusal(reason)
    if reason is not None and not isinstance(failure, RateError):  # these have an entry of their own
        audit("request.refused", reason=reason, path=path)
    is_problem = is_native_path(path) and not isinstance(failure, BusyError)
    response = respond_problem(to_problem(failure)) if is_problem else _respond_refusal(request, refusal)
    if response.status_code >= 500 or refusal.status >= 500:
        # Refusing requests and ending runs during a shutdown is not a server failure.
        level = logging.WARNING if isinstance(failure, StreamError) else logging.ERROR
        logger.log(level, "%s %s: %s", request.method, path, failure)
    return response


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    status = cast("HTTPException", error).status_code
    path = request.url.path
    try:
        await refuse_missing(request)
    except RagflowLgError as refusal:
        return await _handle_error(request, refusal)
    if status == 405 and _UNKNOWN_WORD.fullmatch(path):
        status = 404
    missing = f"No route for {request.method} {path}. /openapi.json lists all routes."
    if is_native_path(path):
        return respond_problem(to_problem(RequestError(missing, status=status)))
    if is_openai_path(path):
        return respond_openai_error(RequestError(missing, status, status=status))
    phrase = {404: "Not Found", 405: "Method Not Allowed"}.get(status, "Error")
    body = {"code": status, "message": f"{phrase}: {path}", "data": None, "error": phrase}
    return respond_json(body, status)


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    if is_native_path(request.url.path):
        problem = to_validation_problem(cast("RequestValidationError", error), request.scope.get("route"))
        return respond_problem(problem)
    faults = cast("RequestValidationError", error).errors()
    if missing := [str(fault["loc"][-1]) for fault in faults if fault["type"] == "missing"]:
        refusal = RequestError(f"required argument are missing: {','.join(missing)}; ", 101, has_data=True)
        return _respond_refusal(request, refusal)
    fields = [f"`{format_location(fault['loc'])}` {describe_fault(fault)}." for fault in faults]
    return _respond_refusal(request, RequestError(f"Invalid request: {' '.join(fields)}", 101))
