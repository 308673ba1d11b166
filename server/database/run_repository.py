"""Runs of a tenant's sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select, update

from ragflow_lg.server.database.plain_rows import adder
from ragflow_lg.server.database.tables import RunRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.services.chat import Usage

__all__ = ["RunRepository"]


class RunRepository:
    """The runs of one tenant; those of others are not there."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, run: RunRow) -> None:
        """Store a run that begins."""
        run.tenant = self._tenant
        await self._database.write(adder(run))

    async def get(self, run_id: str) -> RunRow | None:
        """Give a run."""
        async with self._database.reading() as reading:
            return await reading.scalar(select(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id))

    async def find(self, agent_id: str, session_id: str, page: int, page_size: int) -> tuple[list[RunRow], int]:
        """Give a page of the runs of an agent, the newest first, and how many there are on all pages.

        ``session_id`` is ``""`` for those of all sessions; ``page`` counts from 1.
        """
        wanted = select(RunRow).where(RunRow.tenant == self._tenant, RunRow.agent_id == agent_id)
        if session_id:
            wanted = wanted.where(RunRow.session_id == session_id)
        newest = wanted.order_by(RunRow.start_ms.desc(), RunRow.id.desc())
        async with self._database.reading() as reading:
            total = await reading.scalar(select(func.count()).select_from(wanted.subquery()))
            return list(await reading.scalars(newest.limit(page_size).offset((page - 1) * page_size))), total or 0

    async def end(self, run_id: str, status: str, error: str, usage: Usage, now_ms: int) -> None:
        """Store how a run ended."""
        values = {
            "status": status,
            "error": error,
            "asked": "",
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "end_ms": now_ms,
        }
        async with self._database.writing() as writing:
            chosen = update(RunRow).where(RunRow.tenant == self._tenant, RunRow.id == run_id)
            await writing.execute(chosen.values(values))
