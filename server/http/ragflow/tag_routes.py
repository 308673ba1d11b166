"""RAGFlow's routes of the tags of agents."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tag_repository import AgentTags
from ragflow_lg.server.http.shared.agent_lookup import load_agent
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.request_parsing import read_body, to_text
from ragflow_lg.server.http.shared.responses import respond

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: agents"])

MAX_TAG_CHARS = 64
MAX_TAGS_CHARS = 512


@router.get("/agents/tags")
async def list_tags(request: Request, caller: Authenticated) -> Response:
    """List the tags with how many agents have each, the most used first."""
    category = to_text(request.query_params.get("canvas_category"))
    counted = await AgentTags(get_app_state(request).database, caller.tenant).counts(category)
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return respond([{"tag": tag, "count": count} for tag, count in ordered])


@router.put("/agents/{agent_id}/tags")
async def set_tags(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Give an agent other tags."""
    body = await read_body(request)
    if body and "tags" not in body:  # a slip of the pen should not take all tags away
        raise RequestError("required argument are missing: tags; ", 101)
    await load_agent(request, caller, agent_id)
    tags = _tags(body.get("tags"))
    await AgentTags(get_app_state(request).database, caller.tenant).set(agent_id, ",".join(tags))
    return respond(True)


def _tags(given: Any) -> list[str]:
    """Read tags: a list, or a text with commas between. Of tags that differ in case only the first counts.

    Raises:
        RequestError: if they are neither, or too long together.
    """
    if given is None or isinstance(given, str):
        parts = to_text(given).split(",")
    elif isinstance(given, list):
        parts = [to_text(tag).replace(",", " ") for tag in cast("list[Any]", given)]
    else:
        raise RequestError("`tags` should be a list of texts, or one text with commas.", 101)
    kept: dict[str, str] = {}
    for part in parts:
        tag = " ".join(part.split())[:MAX_TAG_CHARS].strip()
        if tag:
            kept.setdefault(tag.casefold(), tag)
    if len(",".join(kept.values())) > MAX_TAGS_CHARS:
        raise RequestError(f"The tags of an agent have at most {MAX_TAGS_CHARS} characters together.", 101)
    return list(kept.values())
