"""RAGFlow's routes about the server itself. Most need no key, as in RAGFlow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.component.parameter_help import parameters_of
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.http.edge.health_routes import read_states
from ragflow_lg.server.http.shared.auth import Authenticated, note_ragflow_of_key
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.responses import respond_json

router = make_router("RAGFlow: system")
older_router = APIRouter()


@router.get("/language")
async def get_language(request: Request) -> dict[str, str]:
    """Return the language of the RAGFlow whose API this is: `python`, or `go` for clients of 1.0."""
    await note_ragflow_of_key(request)
    return {"language": "go" if speaks_1() else "python"}


@router.get("/system/version")
async def get_version(request: Request) -> str:
    """Return the version of this server."""
    return f"ragflow-lg {request.app.version}"


@router.get("/system/ping", response_class=PlainTextResponse)
async def ping() -> Response:
    """Return the text `pong`."""
    return PlainTextResponse("pong")


@router.get("/system/healthz")
async def check_health(request: Request) -> Response:
    """Check the parts of the server, as `/ready` does. The status is 500 if it is not ready."""
    status, states = await read_states(request)
    parts = {_NAMES.get(name, name): "ok" if state == "ok" else "nok" for name, state in states.items()}
    body = {**parts, "status": "ok" if status == "ready" else "nok"}
    return respond_json(body, 200 if status == "ready" else 500, {"Cache-Control": "no-store"})


_CATEGORIES = ("agent", "ingestion", "shared")


@router.get("/components")
async def list_components(
    caller: Authenticated,
    category: Annotated[str, Query(description="`agent`, `ingestion` or `shared`, or several with commas.")] = "",
) -> Sequence[dict[str, Any]]:
    """List the components with their parameters and outputs, as RAGFlow 1.0 does. All are of the category `agent`."""
    wanted = [name.strip().lower() for name in category.split(",") if name.strip()]
    if unknown := next((name for name in wanted if name not in _CATEGORIES), ""):
        raise RequestError(f"unknown category: {unknown[:80]}", 400)
    return await asyncio.to_thread(_describe_components) if not wanted or "agent" in wanted else ()


@cache
def _describe_components() -> Sequence[dict[str, Any]]:
    return [
        {
            "name": spec.name.lower(),
            "category": "agent",
            "inputs": _describe_fields(spec.params),
            "outputs": _describe_fields(spec.outputs),
        }
        for spec in catalog()
    ]


def _describe_fields(model: type[BaseModel]) -> dict[str, str]:
    return {one.name: one.about or one.type for one in parameters_of(model)}


_NAMES = {"database": "db"}
older_router.add_api_route("/v1/system/healthz", check_health, include_in_schema=False)
