"""RAGFlow's routes for agents embedded in web pages. They require beta keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.ragflow.completion_routes import respond_to_page
from ragflow_lg.server.http.shared.auth import ApiCaller, authenticate_beta, get_app_state, get_turns
from ragflow_lg.server.http.shared.request_parsing import read_body
from ragflow_lg.server.http.shared.responses import respond
from ragflow_lg.server.observability.audit import audit

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: embedded"])

Page = Annotated[ApiCaller, Depends(authenticate_beta)]


@router.post("/agentbots/{agent_id}/completions")
async def complete_embedded(agent_id: str, request: Request, caller: Page) -> Response:
    """Run a turn with an embedded agent."""
    body = await read_body(request)
    agent = await _load_agent(request, caller, agent_id)
    fields: dict[str, Any] = {**request.query_params, **body}
    return await respond_to_page(request, caller, agent, fields)


@router.get("/agentbots/{agent_id}/inputs")
async def get_inputs(agent_id: str, request: Request, caller: Page) -> Response:
    """Return the agent details that a page shows: title, form and greeting."""
    agent = await _load_agent(request, caller, agent_id)
    turns = get_turns(request)
    plan = (await turns.canvas(await turns.version(agent))).plan
    params = plan.nodes[plan.entry].params
    data = {
        "title": agent.title,
        "avatar": agent.avatar,
        "inputs": params.inputs,
        "prologue": getattr(params, "prologue", None) or "",
        "mode": getattr(params, "mode", ""),
    }
    return respond(data)


async def _load_agent(request: Request, caller: ApiCaller, agent_id: str) -> AgentRow:
    row = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if row is None:
        audit("agent.refused", agent=agent_id)
        raise RequestError(f"Can't find agent by ID: {agent_id}", status=404)
    return row
