"""RAGFlow's routes for the tags of agents."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentTags
from ragflow_lg.server.http.shared.agent_lookup import load_agent
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.request_parsing import read_body, to_text
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: agents"])

MAX_TAG_CHARS = 64
MAX_TAGS_CHARS = 512


@router.get("/agents/tags")
async def list_tags(request: Request, caller: Authenticated) -> Response:
    """List all tags with their agent counts, most used first."""
    category = to_text(request.query_params.get("canvas_category"))
    counts = await AgentTags(get_app_state(request).database, caller.tenant).counts(category)
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return respond([{"tag": tag, "count": count} for tag, count in items])


@router.put("/agents/{agent_id}/tags")
async def set_tags(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Replace the tags of an agent."""
    body = await read_body(request)
    if body and "tags" not in body:  # a misspelt field must not remove all tags
        raise RequestError("required argument are missing: tags; ", 101)
    await load_agent(request, caller, agent_id)
    tags = _read_tags(body.get("tags"))
    await AgentTags(get_app_state(request).database, caller.tenant).set(agent_id, ",".join(tags))
    return respond(True)


def _read_tags(value: Any) -> list[str]:
    """Read tags from a list or a comma-separated string. Tags that differ only in case are counted once.

    Raises:
        RequestError: if the value is neither, or the tags are too long in total.
    """
    if value is None or isinstance(value, str):
        parts = to_text(value).split(",")
    elif isinstance(value, list):
        parts = [to_text(tag).replace(",", " ") for tag in cast("list[Any]", value)]
    else:
        raise RequestError("`tags` must be a list of texts, or one text separated by commas.", 101)
    tags_by_key: dict[str, str] = {}
    for part in parts:
        tag = " ".join(part.split())[:MAX_TAG_CHARS].strip()
        if tag:
            tags_by_key.setdefault(tag.casefold(), tag)
    if len(",".join(tags_by_key.values())) > MAX_TAGS_CHARS:
        raise RequestError(f"The tags of an agent must have at most {MAX_TAGS_CHARS} characters in total.", 101)
    return list(tags_by_key.values())
