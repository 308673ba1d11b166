"""The rows that a request for a turn needs, which are read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ragflow_lg.server.database.agent_repository import SELECT_AGENT, SELECT_VERSION
from ragflow_lg.server.database.prepared_statements import PreparedStatement, make_row
from ragflow_lg.server.database.session_repository import SELECT_NEWEST_RUN, SELECT_SESSION
from ragflow_lg.server.database.tables import AgentRow, RunRow, SessionRow, VersionRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragflow_lg.server.database.database import Database


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

    def read(connection: Connection) -> TurnRows | None:
        def first(statement: PreparedStatement, **key: str) -> dict[str, Any] | None:
            return statement.first(connection, {"tenant": tenant, **key})

        def find_version(version_id: str) -> dict[str, Any] | None:
            return first(SELECT_VERSION, agent_id=agent_id, id=version_id)

        agent = first(SELECT_AGENT, id=agent_id)
        if agent is None:
            return None
        session = first(SELECT_SESSION, id=session_id) if session_id else None
        version = find_version(session["version_id"]) if session else None
        version = version or find_version(agent["version_id"])
        run = first(SELECT_NEWEST_RUN, session_id=session_id) if session else None
        return TurnRows(
            make_row(AgentRow, agent),
            make_row(SessionRow, session) if session else None,
            make_row(VersionRow, version) if version else None,
            make_row(RunRow, run) if run else None,
        )

    return await database.read(read)
