"""What readers think of the answers of a tenant's agents."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.tables import FeedbackRow, RunRow


class FeedbackRepository(TenantRepository[FeedbackRow]):
    """One tenant's feedback: at most one row for each run."""

    table = FeedbackRow

    async def put(self, row: FeedbackRow) -> bool:
        """Store the feedback on a run, in place of what was there. Return False if the run has been deleted."""
        row.tenant = self._tenant
        async with self._database.writing() as db:
            run = self._mine(RunRow, id=row.run_id)
            if await db.scalar(select(RunRow.id).where(*run).with_for_update()) is None:
                return False
            before = await db.scalar(self._select(run_id=row.run_id))
            row.create_ms = before.create_ms if before is not None else row.create_ms
            await db.merge(row)
            return True

    async def delete(self, run_id: str) -> None:
        """Delete the feedback on a run, if there is any."""
        await self._database.execute(delete(FeedbackRow).where(*self._mine(run_id=run_id)))

    async def of_runs(self, run_ids: Sequence[str]) -> dict[str, FeedbackRow]:
        """Return the feedback on runs, by run."""
        return {row.run_id: row for row in await self._database.all(self._select(run_id=list(run_ids)))}

    async def find(
        self, agent_id: str, rating: str, since_ms: int, page: int, page_size: int
    ) -> tuple[list[FeedbackRow], int]:
        """Return a page of the feedback on an agent since a time, newest first, and the number on all pages.

        ``rating`` is ``""`` for any. ``page`` counts from 1.
        """
        of_rating = {"rating": rating} if rating else {}
        found = self._select(agent_id=agent_id, **of_rating).where(FeedbackRow.update_ms >= since_ms)
        order = (FeedbackRow.update_ms.desc(), FeedbackRow.run_id.desc())
        return await self._database.page(found, order, page, page_size)
