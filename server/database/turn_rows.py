"""The rows that a request for a turn needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow, RunRow, SessionRow, VersionRow


class TurnRows(NamedTuple):
    """An agent, and the session that the request names, if it exists."""

    agent: AgentRow
    session: SessionRow | None
    """It may belong to another agent of the tenant."""
    version: VersionRow | None
    """The session's version; the agent's draft if there is no session, or the version has been deleted."""
    newest_run: RunRow | None
    """The session's run that started last."""


async def read_turn_rows(database: Database, tenant: str, agent_id: str, session_id: str = "") -> TurnRows | None:
    """Return one of a tenant's agents, with the session if an id is given, or None if there is no such agent."""
    agents = AgentRepository(database, tenant)
    agent = await agents.get(agent_id)
    if agent is None:
        return None
    session = await SessionRepository(database, tenant).get(session_id) if session_id else None
    version = await agents.version(agent_id, session.version_id) if session else None
    version = version or await agents.version(agent_id, agent.version_id)
    run = await RunRepository(database, tenant).newest(session_id) if session else None
    return TurnRows(agent, session, version, run)
