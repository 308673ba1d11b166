"""The schedules of agents. A process claims one by a compare-and-set before it starts a turn."""

from __future__ import annotations

from sqlalchemy import delete, select

from ragflow_lg.server.database.database import Database, TenantRepository
from ragflow_lg.server.database.due_rows import change_due_row
from ragflow_lg.server.database.tables import ScheduleRow


class ScheduleRepository(TenantRepository):
    """One tenant's schedules."""

    async def add(self, row: ScheduleRow) -> None:
        """Store a new schedule."""
        row.tenant = self._tenant
        await self._database.add(row)

    async def list(self, agent_id: str, page: int, page_size: int) -> list[ScheduleRow]:
        """Return a page of the schedules of an agent, or of all agents for ``""``, oldest first."""
        statement = select(ScheduleRow).where(ScheduleRow.tenant == self._tenant)
        if agent_id:
            statement = statement.where(ScheduleRow.agent_id == agent_id)
        ordered = statement.order_by(ScheduleRow.create_ms, ScheduleRow.id)
        return await self._database.all(ordered.limit(page_size).offset((page - 1) * page_size))

    async def delete(self, schedule_id: str, agent_id: str = "") -> bool:
        """Delete a schedule, of an agent if one is given. Return whether it existed."""
        selection = delete(ScheduleRow).where(ScheduleRow.tenant == self._tenant, ScheduleRow.id == schedule_id)
        if agent_id:
            selection = selection.where(ScheduleRow.agent_id == agent_id)
        return await self._database.execute(selection) > 0


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
