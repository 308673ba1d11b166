"""Lists for the pages of RAGFlow's other applications, which this server does not have."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ragflow_lg.server.http.shared.auth import Authenticated
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: lists"])


@router.get("/chats")
async def list_chats(caller: Authenticated) -> Response:
    """List the chat assistants: none, because this server runs agents only."""
    return respond({"chats": [], "total": 0})


@router.get("/searches")
async def list_searches(caller: Authenticated) -> Response:
    """List the search applications: none, because this server runs agents only."""
    return respond({"search_apps": [], "total": 0})
