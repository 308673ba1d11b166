"""Until when sessions wait for the answers to their forms, and what the agents say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from ragflow_lg.server.database.due_rows import as_read
from ragflow_lg.server.database.tables import AgentRow, PauseTimeoutRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.server.database.database import Database


async def write_pause_timeout(db: AsyncSession, run: RunRow, now_ms: int, default_s: int) -> None:
    """Store until when a session waits, in the transaction that stores the end of its run.

    ``default_s`` is for agents that say nothing.
    """
    await db.execute(delete(PauseTimeoutRow).where(PauseTimeoutRow.session_id == run.session_id))
    agent = await db.scalar(select(AgentRow).where(AgentRow.tenant == run.tenant, AgentRow.id == run.agent_id))
    if agent is None:
        return
    if timeout_s := default_s if agent.pause_timeout_s is None else agent.pause_timeout_s:
        expire_ms = now_ms + timeout_s * 1000
        row = PauseTimeoutRow(session_id=run.session_id, agent_id=agent.id, run_id=run.id)
        row.tenant, row.expire_ms, row.due_ms = run.tenant, expire_ms, expire_ms
        db.add(row)


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
