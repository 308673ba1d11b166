"""The agents and sessions that requests name."""

from __future__ import annotations

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import AgentRow, SessionRow
from ragflow_lg.server.database.turn_rows import TurnRows, read_turn_rows
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state
from ragflow_lg.server.observability.audit import audit

NO_ACCESS = "Make sure you have permission to access the agent."
NO_OWNER = "Only the owner of the agent is authorized for this operation."
NO_ACCESS_BEFORE = "Only owner of canvas authorized for this operation."
"""RAGFlow's text up to 0.25.1. Clients of 0.25.1 to 0.25.6 have keys of one kind, so they get both texts."""

_NO_SESSION = "Session not found!"


async def load_agent(request: Request, caller: ApiCaller, agent_id: str, *, is_owned: bool = False) -> AgentRow:
    """Load one of the caller's agents. ``is_owned`` selects RAGFlow's message for owner-only operations.

    Raises:
        RequestError: if the caller has no such agent; the response does not reveal other tenants' agents.
    """
    agent = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if agent is None or not caller.opens(agent.id):
        raise _refuse_agent(caller, agent_id, NO_OWNER if is_owned else NO_ACCESS)
    return agent


async def load_turn_rows(request: Request, caller: ApiCaller, agent_id: str, session_id: str) -> TurnRows:
    """Load one of the caller's agents together with what a turn in the session, or in a new one, needs.

    Raises:
        RequestError: if the caller has no such agent.
    """
    rows = await read_turn_rows(get_app_state(request).database, caller.tenant, agent_id, session_id)
    if rows is None or not caller.opens(rows.agent.id):
        raise _refuse_agent(caller, agent_id, NO_ACCESS)
    return rows


def _refuse_agent(caller: ApiCaller, agent_id: str, message: str) -> RequestError:
    audit("agent.refused", agent=agent_id)
    if caller.is_old:
        message = NO_ACCESS_BEFORE
    elif caller.has_long_pages:
        message = f"{NO_ACCESS_BEFORE} {message}"
    return RequestError(message, 103, status=404, data=False, has_data=True)


async def load_session(request: Request, agent: AgentRow, session_id: str, *, foreign: str = "") -> SessionRow:
    """Load one of an agent's sessions.

    ``foreign`` is the message for the session of another agent of the same tenant. Without it, such a session counts as
    missing.

    Raises:
        RequestError: if there is no such session.
    """
    session = await SessionRepository(get_app_state(request).database, agent.tenant).get(session_id)
    return require_session(agent, session, foreign=foreign)


def require_session(agent: AgentRow, session: SessionRow | None, *, foreign: str = "") -> SessionRow:
    """Return a session if it belongs to the agent; see `load_session`.

    Raises:
        RequestError: if there is no such session.
    """
    if session is not None and session.agent_id == agent.id:
        return session
    if session is not None and foreign:
        raise RequestError(foreign, 103, status=404, data=False, has_data=True)
    raise RequestError(_NO_SESSION, status=404)


def require_own(caller: ApiCaller, session: SessionRow) -> SessionRow:
    """Return a session if the caller may use it. For visitors of embedded pages, only their own sessions exist.

    Raises:
        RequestError: if it may not.
    """
    if caller.reaches(session):
        return session
    audit("session.refused", session=session.id)
    raise RequestError(_NO_SESSION, status=404)
