"""The runs in a tenant's sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select, update

from ragflow_lg.server.database.plain_rows import insert_rows
from ragflow_lg.server.database.tables import RunRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.services.chat import Usage


class RunRepository:
    """One tenant's runs. Those of other tenants are invisible."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, run: RunRow) -> None:
        """Store a run that is starting."""
        run.tenant = self._tenant
        await self._database.write(insert_rows(run))

    async def get(self, run_id: str) -> RunRow | None:
        """Return a run, or None."""
        async with self._database.reading() as db:
            return await db.scalar(select(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id))

    async def find(self, agent_id: str, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Return a page of an agent's runs, newest first, and the total number across all pages.

        If ``session_id`` is ``""``, the runs in all sessions are returned. ``page`` counts from 1.
        """
        statement = select(RunRow).where(RunRow.tenant == self._tenant, RunRow.agent_id == agent_id)
        if session_id:
            statement = statement.where(RunRow.session_id == session_id)
        newest = statement.order_by(RunRow.start_ms.desc(), RunRow.id.desc())
        async with self._database.reading() as db:
            total = await db.scalar(select(func.count()).select_from(statement.subquery()))
            return list(await db.scalars(newest.limit(page_size).offset((page - 1) * page_size))), total or 0

    async def end(self, run_id: str, status: str, error: str, usage: Usage, now_ms: int) -> None:
        """Store the end of a run."""
        values = {
            "status": status,
            "error": error,
            "asked": "",
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "end_ms": now_ms,
        }
        async with self._database.writing() as db:
            selection = update(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id)
            await db.execute(selection.values(values))
