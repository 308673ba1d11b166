"""The times at which sessions stop to wait for an answer. A process claims one by a compare-and-set before it acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, select, update

from ragflow_lg.server.database.database import Database, matching
from ragflow_lg.server.database.tables import AgentRow, PauseTimeoutRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


async def find_due(database: Database, now_ms: int, limit: int) -> list[PauseTimeoutRow]:
    """Return rows of all tenants that are due, beginning with the one that has waited longest."""
    table = PauseTimeoutRow
    due = select(table).where(table.due_ms <= now_ms).order_by(table.due_ms, table.session_id)
    return await database.all(due.limit(limit))


async def claim(database: Database, row: PauseTimeoutRow, until_ms: int) -> bool:
    """Claim a row, unless another process has changed it since it was read."""
    if not await database.execute(update(PauseTimeoutRow).where(*_as_read(row)).values(due_ms=until_ms)):
        return False
    row.due_ms = until_ms
    return True


def _as_read(row: PauseTimeoutRow) -> list[ColumnElement[bool]]:
    """Return the conditions that select a row if nobody has changed it since it was read."""
    return matching(PauseTimeoutRow, session_id=row.session_id, due_ms=row.due_ms, run_id=row.run_id)


async def write_pause_timeout(db: AsyncSession, run: RunRow, now_ms: int, default_s: int) -> None:
    """Store until when a session waits, in the transaction that stores the end of its run.

    ``default_s`` is for agents that say nothing.
    """
    await db.execute(delete(PauseTimeoutRow).where(PauseTimeoutRow.session_id == run.session_id))
    agent = await db.scalar(select(AgentRow).where(*matching(AgentRow, tenant=run.tenant, id=run.agent_id)))
    if agent is None:
        return
    if timeout_s := default_s if agent.pause_timeout_s is None else agent.pause_timeout_s:
        expire_ms = now_ms + timeout_s * 1000
        of_run = {"tenant": run.tenant, "session_id": run.session_id, "agent_id": agent.id, "run_id": run.id}
        db.add(PauseTimeoutRow(expire_ms=expire_ms, due_ms=expire_ms, **of_run))


async def find_expiry(database: Database, tenant: str, session_id: str) -> int:
    """Return until when a session that waits for an answer does so, in epoch milliseconds; 0 for ever."""
    of_session = matching(PauseTimeoutRow, tenant=tenant, session_id=session_id)
    return await database.first(select(PauseTimeoutRow.expire_ms).where(*of_session)) or 0


async def delete_expired(database: Database, row: PauseTimeoutRow, error: str = "") -> None:
    """Delete the row that this process has claimed, and store the ``error`` of its run, if there is one.

    Nothing happens if the session waits for something else by now.
    """
    async with database.writing() as db:
        await db.execute(delete(PauseTimeoutRow).where(*_as_read(row)))
        if error:
            of_run = matching(RunRow, tenant=row.tenant, id=row.run_id)
            await db.execute(update(RunRow).where(*of_run).values(error=error))
