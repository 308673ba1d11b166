"""RAGFlow's routes for agent traces in a run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.http.shared.agent_lookup import load_agent
from ragflow_lg.server.http.shared.auth import ApiCaller, authenticate, authenticate_beta, get_app_state
from ragflow_lg.server.http.shared.request_parsing import to_text
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: traces"])


@router.get("/agents/{agent_id}/logs/{message_id}")
async def get_trace(
    agent_id: str, message_id: str, request: Request, caller: Annotated[ApiCaller, Depends(authenticate)]
) -> Response:
    """Return a run's tool calls, even while it is running; ``{}`` if there are no calls."""
    return await _respond_trace(request, caller, agent_id, message_id)


@router.get("/agentbots/{agent_id}/logs/{message_id}")
async def get_trace_of_page(
    agent_id: str, message_id: str, request: Request, caller: Annotated[ApiCaller, Depends(authenticate_beta)]
) -> Response:
    """Return a run's tool calls to an embedded page."""
    return await _respond_trace(request, caller, agent_id, message_id)


async def _respond_trace(request: Request, caller: ApiCaller, agent_id: str, message_id: str) -> Response:
    app_state = get_app_state(request)
    await load_agent(request, caller, agent_id)
    run = await RunRepository(app_state.database, caller.tenant).get(to_text(message_id))
    if run is None or run.agent_id != agent_id:
        return respond({})
    return respond(await app_state.store.traces.get(run.id) or {})
