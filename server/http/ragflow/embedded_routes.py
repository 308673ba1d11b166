"""RAGFlow's routes for agents that are embedded in pages of others; they take beta keys only."""

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

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: embedded"])

Page = Annotated[ApiCaller, Depends(authenticate_beta)]


@router.post("/agentbots/{agent_id}/completions")
async def complete_embedded(agent_id: str, request: Request, caller: Page) -> Response:
    """Play a turn."""
    body = await read_body(request)
    agent = await _agent(request, caller, agent_id)
    given: dict[str, Any] = {**request.query_params, **body}
    return await respond_to_page(request, caller, agent, given)


@router.get("/agentbots/{agent_id}/inputs")
async def get_inputs(agent_id: str, request: Request, caller: Page) -> Response:
    """Show an agent as a page presents it: its name, its form, what it says first."""
    agent = await _agent(request, caller, agent_id)
    turns = get_turns(request)
    plan = (await turns.canvas(await turns.version(agent))).plan
    params = plan.nodes[plan.entry].params
    shown = {
        "title": agent.title,
        "avatar": agent.avatar,
        "inputs": params.inputs,
        "prologue": getattr(params, "prologue", None) or "",
        "mode": getattr(params, "mode", ""),
    }
    return respond(shown)


async def _agent(request: Request, caller: ApiCaller, agent_id: str) -> AgentRow:
    found = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if found is None:
        audit("agent.refused", agent=agent_id)
        raise RequestError(f"Can't find agent by ID: {agent_id}", status=404)
    return found
