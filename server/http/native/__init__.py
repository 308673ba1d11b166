"""The native API: runs, sessions, versions and canvases with clear verbs, types and problems."""

from fastapi import APIRouter

from server.http.native import canvases, runs, sessions, versions
from server.http.native.problems import invalid, is_native, problem_of, refuse

__all__ = ["invalid", "is_native", "problem_of", "refuse", "router"]

router = APIRouter()
for _module in (runs, sessions, versions, canvases):
    router.include_router(_module.router)
