"""The agent that a request names."""

from __future__ import annotations

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import AgentRow
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state
from ragflow_lg.server.observability.audit import audit

NO_ACCESS = "Make sure you have permission to access the agent."


async def load_agent(request: Request, caller: ApiCaller, agent_id: str, *, is_owned: bool = False) -> AgentRow:
    """Load one of the caller's agents. ``is_owned`` selects RAGFlow's message for owner-only operations.

    Raises:
        RequestError: if the caller has no such agent; the response does not reveal other tenants' agents.
    """
    agent = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if agent is None:
        audit("agent.refused", agent=agent_id)
        message = "Only the owner of the agent is authorized for this operation." if is_owned else NO_ACCESS
        raise RequestError(message, 103, status=404, data=False, has_data=True)
    return agent
