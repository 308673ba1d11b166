"""Lists for the pages of RAGFlow's other applications, which this server does not have."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from ragflow_lg.server.http.shared.auth import Authenticated
from ragflow_lg.server.http.shared.described_routes import DescribedRoute
from ragflow_lg.server.http.shared.route_schemas import Answer

router = APIRouter(prefix="/api/v1", tags=["RAGFlow's front end: lists"], route_class=DescribedRoute)


class ChatList(Answer):
    """The chat assistants: always none."""

    chats: list[dict[str, Any]] = Field(default=[])
    total: int = 0


class SearchList(Answer):
    """The search applications: always none."""

    search_apps: list[dict[str, Any]] = Field(default=[])
    total: int = 0


@router.get("/chats")
async def list_chats(caller: Authenticated) -> ChatList:
    """List the chat assistants: none, because this server runs agents only."""
    return ChatList()


@router.get("/searches")
async def list_searches(caller: Authenticated) -> SearchList:
    """List the search applications: none, because this server runs agents only."""
    return SearchList()
