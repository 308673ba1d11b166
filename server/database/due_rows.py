"""Rows with a time at which a process does something about them: schedules, and forms that nobody answers.

A process claims one by a compare-and-set before it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, delete, inspect, select, update

from ragflow_lg.server.database.database import Database, TenantRepository, matching
from ragflow_lg.server.database.tables import AgentRow, PauseTimeoutRow, RunRow, ScheduleRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

DueRow = TypeVar("DueRow", ScheduleRow, PauseTimeoutRow)


async def find_due_rows(database: Database, table: type[DueRow], now_ms: int, limit: int) -> list[DueRow]:
    """Return rows of all tenants that are due, beginning with the one that has waited longest."""
    (key,) = inspect(table).primary_key
    return await database.all(select(table).where(table.due_ms <= now_ms).order_by(table.due_ms, key).limit(limit))


async def change_due_row(database: Database, row: ScheduleRow | PauseTimeoutRow, **values: Any) -> bool:
    """Change a row, also in memory, unless another process has changed it since it was read."""
    if not await database.execute(update(type(row)).where(*_as_read(row)).values(values)):
        return False
    for name, value in values.items():
        setattr(row, name, value)
    return True


def _as_read(row: ScheduleRow | PauseTimeoutRow) -> list[ColumnElement[bool]]:
    """Return the conditions that select a row if nobody has changed it since it was read."""
    names = [key.name for key in inspect(type(row)).primary_key]
    return matching(type(row), **{name: getattr(row, name) for name in (*names, "due_ms", "run_id")})


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


class ScheduleRepository(TenantRepository[ScheduleRow]):
    """One tenant's schedules."""

    table = ScheduleRow

    async def list(self, agent_id: str, page: int, page_size: int) -> list[ScheduleRow]:
        """Return a page of the schedules of an agent, or of all agents for ``""``, oldest first."""
        of_agent = {"agent_id": agent_id} if agent_id else {}
        ordered = self._select(**of_agent).order_by(ScheduleRow.create_ms, ScheduleRow.id)
        return await self._database.all(ordered.limit(page_size).offset((page - 1) * page_size))

    async def delete(self, schedule_id: str, agent_id: str = "") -> bool:
        """Delete a schedule, of an agent if one is given. Return whether it existed."""
        of_agent = {"agent_id": agent_id} if agent_id else {}
        return await self._database.execute(delete(ScheduleRow).where(*self._mine(id=schedule_id, **of_agent))) > 0


async def claim(database: Database, row: ScheduleRow, until_ms: int, run_id: str) -> bool:
    """Claim a schedule that is due, to start a run under an id. Return False if another process has claimed it.

    The claim ends at ``until_ms``. A run that a process before has tried to start keeps its id.
    """
    return await change_due_row(database, row, due_ms=until_ms, run_id=row.run_id or run_id)


async def set_next(database: Database, row: ScheduleRow, due_ms: int, error: str) -> bool:
    """Set the next start of a claimed schedule, after its run has started or was refused with an error.

    Return False if it is no longer claimed by this process, or has been deleted.
    """
    last_run_id = row.last_run_id if error else row.run_id
    return await change_due_row(database, row, due_ms=due_ms, run_id="", last_run_id=last_run_id, error=error)
