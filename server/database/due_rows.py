"""Rows with a time at which a process does something about them: schedules, and forms that nobody answers.

A process claims one by a compare-and-set before it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, inspect, select, update

from ragflow_lg.server.database.tables import PauseTimeoutRow, ScheduleRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

DueRow = TypeVar("DueRow", ScheduleRow, PauseTimeoutRow)


async def find_due_rows(database: Database, table: type[DueRow], now_ms: int, limit: int) -> list[DueRow]:
    """Return rows of all tenants that are due, beginning with the one that has waited longest."""
    (key,) = inspect(table).primary_key
    return await database.all(select(table).where(table.due_ms <= now_ms).order_by(table.due_ms, key).limit(limit))


async def change_due_row(database: Database, row: ScheduleRow | PauseTimeoutRow, **values: Any) -> bool:
    """Change a row, also in memory, unless another process has changed it since it was read."""
    if not await database.execute(update(type(row)).where(*as_read(row)).values(values)):
        return False
    for name, value in values.items():
        setattr(row, name, value)
    return True


def as_read(row: ScheduleRow | PauseTimeoutRow) -> list[ColumnElement[bool]]:
    """Return the conditions that select a row if nobody has changed it since it was read."""
    table = type(row)
    (key,) = inspect(table).primary_key
    return [key == getattr(row, key.name), table.due_ms == row.due_ms, table.run_id == row.run_id]
