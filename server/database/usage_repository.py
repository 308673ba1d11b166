"""What a tenant uses: turns, tokens and costs by day, and the number of its agents, versions and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from msgspec import Struct
from sqlalchemy import Table, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import TenantRepository
from ragflow_lg.server.database.prepared_statements import PreparedStatement, insert_rows
from ragflow_lg.server.database.tables import AgentRow, FileRow, Row, ScheduleRow, SessionRow, UsageRow, VersionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


DAY_MS = 24 * 3600 * 1000
DailyQuota: TypeAlias = Literal["turns_day", "tokens_day", "cost_day"]
StoredQuota: TypeAlias = Literal["agents", "versions", "sessions", "checkpoint_bytes", "schedules"]

_USAGE = cast("Table", UsageRow.__table__)
_PLACE = (
    _USAGE.c.tenant == bindparam("at_tenant"),
    _USAGE.c.page_key == bindparam("at_key"),
    _USAGE.c.day == bindparam("at_day"),
)
_FIND = PreparedStatement(select(_USAGE.c.turns, _USAGE.c.tokens, _USAGE.c.micro_cost).where(*_PLACE))
_COUNT_TURN = PreparedStatement(
    update(_USAGE)
    .where(
        *_PLACE,
        or_(bindparam("max_turns") == 0, _USAGE.c.turns < bindparam("max_turns")),
        or_(bindparam("max_tokens") == 0, _USAGE.c.tokens < bindparam("max_tokens")),
        or_(bindparam("max_cost") == 0, _USAGE.c.micro_cost < bindparam("max_cost")),
    )
    .values(turns=_USAGE.c.turns + 1)
)
"""Matches nothing if a quota is used up, or if it is the first turn of the day."""
_ADD_USAGE = PreparedStatement(
    update(_USAGE)
    .where(*_PLACE)
    .values(
        tokens=_USAGE.c.tokens + bindparam("added_tokens"), micro_cost=_USAGE.c.micro_cost + bindparam("added_cost")
    )
)
_FIRST_TURN = PreparedStatement(insert(_USAGE), tuple(_USAGE.columns.keys()))


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


class _UsedUpError(Exception):
    """Rolls back a transaction."""

    def __init__(self, used_up: UsedUp) -> None:
        self.used_up = used_up
        super().__init__()


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
        def write(connection: Connection) -> None:
            usages = [(each, self._find(connection, each.page_key, now_ms)) for each in limits]
            for each, usage in usages:
                if usage is not None and (quota := each.used_up(usage)):
                    raise _UsedUpError(UsedUp(quota, each))
            insert_rows(*rows)(connection)
            for each, usage in usages:  # last, because other turns of the tenant wait for these rows
                place = self._place(each.page_key, now_ms)
                if usage is None:
                    row = {"tenant": self._tenant, "page_key": each.page_key, "day": place["at_day"]}
                    _FIRST_TURN.execute(connection, {**row, "turns": 1, "tokens": 0, "micro_cost": 0})
                else:
                    most = {"max_turns": each.turns, "max_tokens": each.tokens, "max_cost": round(each.cost * 1e6)}
                    if not _COUNT_TURN.execute(connection, place | most):  # another replica was faster
                        raise _UsedUpError(UsedUp(each.used_up(usage) or "turns_day", each))

        try:
            await self._database.write(write)
        except _UsedUpError as error:
            return error.used_up
        return None

    async def add_usage(self, tokens: int, cost: float, now_ms: int) -> None:
        """Add tokens and their cost to the current day of a tenant that has begun a turn in it."""
        added = {**self._place("", now_ms), "added_tokens": tokens, "added_cost": round(cost * 1e6)}

        def write(connection: Connection) -> None:
            _ADD_USAGE.execute(connection, added)

        await self._database.write(write)

    async def day(self, now_ms: int, page_key: str = "") -> DayUsage:
        """Return what has been used on the current day."""
        return await self._database.read(lambda db: self._find(db, page_key, now_ms)) or DayUsage()

    async def count(self, quota: StoredQuota) -> int:
        """Count what is stored for the tenant."""
        tables: dict[StoredQuota, type[AgentRow | VersionRow | SessionRow | ScheduleRow]]
        tables = {"agents": AgentRow, "versions": VersionRow, "sessions": SessionRow, "checkpoint_bytes": SessionRow}
        tables["schedules"] = ScheduleRow
        table = cast("Table", tables[quota].__table__)
        counted: Any = func.sum(table.c.stored_bytes) if quota == "checkpoint_bytes" else func.count()
        statement = select(counted).select_from(table).where(table.c.tenant == self._tenant)
        return await self._database.read(lambda db: int(db.execute(statement).scalar() or 0))

    async def files(self) -> tuple[int, int]:
        """Return the number of the tenant's files and their total size."""
        usage = select(func.count(), func.sum(FileRow.size_bytes)).where(FileRow.tenant == self._tenant)
        count, size = await self._database.read(lambda db: db.execute(usage).one())
        return count, int(size or 0)

    def _find(self, connection: Connection, page_key: str, now_ms: int) -> DayUsage | None:
        row = _FIND.first(connection, self._place(page_key, now_ms))
        return None if row is None else DayUsage(row["turns"], row["tokens"], row["micro_cost"] / 1e6)

    def _place(self, page_key: str, now_ms: int) -> dict[str, Any]:
        return {"at_tenant": self._tenant, "at_key": page_key, "at_day": now_ms // DAY_MS}
