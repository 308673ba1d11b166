"""The native API: runs, sessions, versions and canvases with clear verbs, types and problems."""

from fastapi import APIRouter

from ragflow_lg.server.http.native import native_canvas_routes as canvases
from ragflow_lg.server.http.native import native_run_routes as runs
from ragflow_lg.server.http.native import native_session_routes as sessions
from ragflow_lg.server.http.native import native_version_routes as versions
from ragflow_lg.server.http.native.problem_details import invalid, is_native, problem_of, refuse

__all__ = ["invalid", "is_native", "problem_of", "refuse", "router"]

router = APIRouter()
for _module in (runs, sessions, versions, canvases):
    router.include_router(_module.router)
