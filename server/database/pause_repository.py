"""Until when sessions wait for the answers to their forms, and what the agents say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sqlalchemy import Table, bindparam, delete, insert, select, update

from ragflow_lg.server.database.due_rows import as_read
from ragflow_lg.server.database.tables import AgentRow, PauseTimeoutRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragflow_lg.server.database.database import Database

_AGENTS, _RUNS, _TIMEOUTS = (cast("Table", row.__table__) for row in (AgentRow, RunRow, PauseTimeoutRow))

_OF_AGENT = (
    select(_AGENTS.c.id, _AGENTS.c.pause_timeout_s)
    .join(_RUNS, (_RUNS.c.tenant == _AGENTS.c.tenant) & (_RUNS.c.agent_id == _AGENTS.c.id))
    .where(_RUNS.c.tenant == bindparam("tenant"), _RUNS.c.id == bindparam("run_id"))
)
_DELETE = delete(_TIMEOUTS).where(_TIMEOUTS.c.session_id == bindparam("at_session"))
_INSERT = insert(_TIMEOUTS)


def write_pause_timeout(
    connection: Connection, tenant: str, session_id: str, run_id: str, now_ms: int, default_s: int
) -> None:
    """Store until when a session waits, in the transaction that stores the end of its run.

    ``default_s`` is for agents that say nothing.
    """
    connection.execute(_DELETE, {"at_session": session_id})
    agent = connection.execute(_OF_AGENT, {"tenant": tenant, "run_id": run_id}).first()
    if agent is None:
        return
    agent_id, own_s = agent
    if timeout_s := default_s if own_s is None else own_s:
        expire_ms = now_ms + timeout_s * 1000
        row = {"tenant": tenant, "session_id": session_id, "agent_id": agent_id, "run_id": run_id}
        connection.execute(_INSERT, row | {"expire_ms": expire_ms, "due_ms": expire_ms})


async def find_expiry(database: Database, tenant: str, session_id: str) -> int:
    """Return until when a session that waits for an answer does so, in epoch milliseconds; 0 for ever."""
    selection = select(PauseTimeoutRow.expire_ms).where(
        PauseTimeoutRow.tenant == tenant, PauseTimeoutRow.session_id == session_id
    )
    return await database.first(selection) or 0


async def delete_expired(database: Database, row: PauseTimeoutRow, error: str = "") -> None:
    """Delete the row that this process has claimed, and store the ``error`` of its run, if there is one.

    Nothing happens if the session waits for something else by now.
    """
    async with database.writing() as db:
        await db.execute(delete(PauseTimeoutRow).where(*as_read(row)))
        if error:
            of_run = update(RunRow).where(RunRow.tenant == row.tenant, RunRow.id == row.run_id)
            await db.execute(of_run.values(error=error))
