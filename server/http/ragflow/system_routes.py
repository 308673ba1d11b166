"""RAGFlow's routes about the server itself. They need no key, as in RAGFlow."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ragflow_lg.server.http.edge.health_routes import read_states
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.responses import respond_json

router = make_router("RAGFlow: system")
older_router = APIRouter()


@router.get("/language")
async def get_language() -> dict[str, str]:
    """Return the language of the RAGFlow whose API this is."""
    return {"language": "python"}


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


_NAMES = {"database": "db"}
older_router.add_api_route("/v1/system/healthz", check_health, include_in_schema=False)
