"""What a tenant uses: turns, tokens and costs by day, and the number of its agents, versions and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.tables import AgentRow, FileRow, Row, ScheduleRow, SessionRow, UsageRow, VersionRow

if TYPE_CHECKING:
    from collections.abc import Sequence


DAY_MS = 24 * 3600 * 1000
DailyQuota: TypeAlias = Literal["turns_day", "tokens_day", "cost_day"]
StoredQuota: TypeAlias = Literal["agents", "versions", "sessions", "checkpoint_bytes", "schedules"]


class DailyLimits(Struct, frozen=True):
    """The limits for one day of a tenant, or of a key of embedded pages; 0 for none."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    page_key: str = ""
    """Id of the key, or ``""`` for the tenant."""

    def used_up(self, usage: DayUsage) -> DailyQuota | None:
        """Return the quota that is used up, or None."""
        if 0 < self.turns <= usage.turns:
            return "turns_day"
        if 0 < self.tokens <= usage.tokens:
            return "tokens_day"
        return "cost_day" if 0 < self.cost <= usage.cost else None


class DayUsage(Struct, frozen=True):
    """What has been used on one day."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0


class UsedUp(Struct, frozen=True):
    """A daily quota that has no room for another turn."""

    quota: DailyQuota
    limits: DailyLimits


class UsageRepository(TenantRepository):
    """One tenant's usage. It is stored in the database, so it holds for all replicas and after restarts."""

    async def begin_turn(self, limits: Sequence[DailyLimits], now_ms: int, *rows: Row) -> UsedUp | None:
        """Count a turn within all limits, and store its run and what else begins with it, in one transaction.

        Return the quota that is used up, in which case nothing is stored.
        """
        for row in rows:
            row.tenant = self._tenant
        try:
            return await self._begin_turn(limits, now_ms, rows)
        except DatabaseError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
            # Another replica has just counted the first turn of the day. If it has stored this run, this fails again.
            return await self._begin_turn(limits, now_ms, rows)

    async def _begin_turn(self, limits: Sequence[DailyLimits], now_ms: int, rows: Sequence[Row]) -> UsedUp | None:
        async with self._database.writing() as db:
            days = [await db.scalar(self._select(now_ms, each.page_key).with_for_update()) for each in limits]
            for each, day in zip(limits, days, strict=True):
                if day is not None and (quota := each.used_up(_to_day_usage(day))):
                    return UsedUp(quota, each)
            for each, day in zip(limits, days, strict=True):
                if day is not None:
                    day.turns += 1
                else:
                    first = UsageRow(page_key=each.page_key, day=now_ms // DAY_MS, turns=1)
                    first.tenant = self._tenant
                    db.add(first)
            db.add_all(rows)
            return None

    async def add_usage(self, tokens: int, cost: float, now_ms: int) -> None:
        """Add tokens and their cost to the current day of a tenant that has begun a turn in it."""
        async with self._database.writing() as db:
            if (usage := await db.scalar(self._select(now_ms).with_for_update())) is not None:
                usage.tokens += tokens
                usage.micro_cost += round(cost * 1e6)

    async def day(self, now_ms: int, page_key: str = "") -> DayUsage:
        """Return what has been used on the current day."""
        row = await self._database.first(self._select(now_ms, page_key))
        return DayUsage() if row is None else _to_day_usage(row)

    async def count(self, quota: StoredQuota) -> int:
        """Count what is stored for the tenant."""
        if quota == "checkpoint_bytes":
            sizes = select(func.sum(SessionRow.stored_bytes)).where(SessionRow.tenant == self._tenant)
            return int(await self._database.first(sizes) or 0)
        table = {"agents": AgentRow, "versions": VersionRow, "sessions": SessionRow, "schedules": ScheduleRow}[quota]
        rows = select(func.count()).select_from(table).where(table.tenant == self._tenant)
        return await self._database.first(rows) or 0

    async def files(self) -> tuple[int, int]:
        """Return the number of the tenant's files and their total size."""
        usage = select(func.count(), func.sum(FileRow.size_bytes)).where(FileRow.tenant == self._tenant)
        ((count, size),) = await self._database.rows(usage)
        return count, int(size or 0)

    def _select(self, now_ms: int, page_key: str = "") -> Select[UsageRow]:
        of_day = (UsageRow.page_key == page_key, UsageRow.day == now_ms // DAY_MS)
        return select(UsageRow).where(UsageRow.tenant == self._tenant, *of_day)


def _to_day_usage(row: UsageRow) -> DayUsage:
    return DayUsage(row.turns, row.tokens, row.micro_cost / 1e6)
