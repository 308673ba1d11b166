"""What a tenant uses: turns, tokens and costs by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.session_repository import NO_SESSION
from ragflow_lg.server.database.tables import Row, RunRow, SessionRow, UsageRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession

DAY_MS = 24 * 3600 * 1000


class DailyLimit(Struct, frozen=True):
    """How many tokens a tenant, or a key of embedded pages, may use on one day; 0 for any number."""

    tokens: int = 0
    page_key: str = ""
    """Id of the key, or ``""`` for the tenant."""


class DayUsage(Struct, frozen=True):
    """What has been used on one day."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0


class UsageRepository(TenantRepository[UsageRow]):
    """One tenant's usage. It is stored in the database, so it holds for all replicas and after restarts."""

    table = UsageRow

    async def begin_turn(
        self, limits: Sequence[DailyLimit], now_ms: int, *rows: Row, is_repeated: bool = False
    ) -> DailyLimit | None:
        """Count a turn within all limits, and store its run and what else begins with it, in one transaction.

        Return the limit that is used up, in which case nothing is stored.

        Raises:
            RequestError: If the session of the run has been deleted.
        """
        for row in rows:
            row.tenant = self._tenant
        try:
            async with self._database.writing() as db:
                days: list[UsageRow] = []
                for each in limits:  # each is there before the next is locked, or replicas would block each other
                    day = await db.scalar(self._of_day(now_ms, each.page_key).with_for_update())
                    if day is None:
                        day = UsageRow(tenant=self._tenant, page_key=each.page_key, day=now_ms // DAY_MS, turns=0)
                        db.add(day)
                        await db.flush()
                    elif 0 < each.tokens <= day.tokens:
                        return each
                    days.append(day)
                for day in days:
                    day.turns += 1
                await self._require_sessions(db, rows)
                db.add_all(rows)
                return None
        except DatabaseError as error:
            if is_repeated or not isinstance(error.__cause__, IntegrityError):
                raise
        # Another replica has just counted the first turn of the day. If it has stored this run, this fails again.
        return await self.begin_turn(limits, now_ms, *rows, is_repeated=True)

    async def _require_sessions(self, db: AsyncSession, rows: Sequence[Row]) -> None:
        """Check that the sessions of runs are stored, or are among the rows. Until the end, nobody deletes them."""
        new = {row.id for row in rows if isinstance(row, SessionRow)}
        for row in rows:
            if isinstance(row, RunRow) and row.session_id not in new:
                mine = self._mine(SessionRow, id=row.session_id)
                if await db.scalar(select(SessionRow.id).where(*mine).with_for_update()) is None:
                    raise RequestError(NO_SESSION, status=404)

    async def add_usage(self, tokens: int, cost: float, now_ms: int) -> None:
        """Add tokens and their cost to the current day of a tenant that has begun a turn in it."""
        async with self._database.writing() as db:
            if (usage := await db.scalar(self._of_day(now_ms).with_for_update())) is not None:
                usage.tokens += tokens
                usage.micro_cost += round(cost * 1e6)

    async def day(self, now_ms: int, page_key: str = "") -> DayUsage:
        """Return what has been used on the current day."""
        row = await self._database.first(self._of_day(now_ms, page_key))
        return DayUsage() if row is None else DayUsage(row.turns, row.tokens, row.micro_cost / 1e6)

    def _of_day(self, now_ms: int, page_key: str = "") -> Select[UsageRow]:
        return self._select(page_key=page_key, day=now_ms // DAY_MS)
