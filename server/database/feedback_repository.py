"""What readers think of the answers of a tenant's agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.tables import FeedbackRow, MessageRow, RunRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


class FeedbackRepository(TenantRepository[FeedbackRow]):
    """One tenant's feedback: at most one row for each run, also if copies of its session have its answer."""

    table = FeedbackRow

    async def put(self, row: FeedbackRow) -> bool:
        """Store the feedback on an answer, in place of what was there. Return False if the answer has been deleted."""
        row.tenant = self._tenant
        async with self._database.writing() as db:
            if not await self._lock(db, row.run_id, row.session_id):
                return False
            before = await db.get(FeedbackRow, row.run_id)
            if before is not None and before.tenant != self._tenant:
                return False  # on a copy, as this one
            row.create_ms = before.create_ms if before is not None else row.create_ms
            await db.merge(row)
            return True

    async def delete(self, run_id: str, session_id: str) -> None:
        """Delete the feedback on an answer, if there is any."""
        async with self._database.writing() as db:
            await self._lock(db, run_id, session_id)
            await db.execute(delete(FeedbackRow).where(*self._mine(run_id=run_id)))

    async def _lock(self, db: AsyncSession, run_id: str, session_id: str) -> bool:
        """Lock a run, or its answer in a copy of its session if it has been deleted. Return whether there is one.

        An imported copy may name the run of another tenant, which is not touched.
        """
        run = select(RunRow.id).where(*self._mine(RunRow, id=run_id))
        of_run = self._mine(MessageRow, session_id=session_id, run_id=run_id, role="assistant")
        is_deleted = ~select(RunRow.id).where(RunRow.id == run_id).exists()
        answer = select(MessageRow.run_id).where(*of_run, is_deleted).order_by(MessageRow.number).limit(1)
        for found in (run, answer):
            if await db.scalar(found.with_for_update()) is not None:
                return True
        return False

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
