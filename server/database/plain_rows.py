"""Rows without the mapper, whose work counts in every turn: found by statements that are made once, and inserted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Insert, Table, insert

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from ragflow_lg.server.database.tables import Row

__all__ = ["adder", "finder"]

_INSERTS: dict[Table, Insert] = {}


def finder(statement: Select[Any], values: Mapping[str, Any]) -> Callable[[Connection], dict[str, Any] | None]:
    """Give work for `Database.read` that finds the first row: its values by column, None if there is none."""

    def find(connection: Connection) -> dict[str, Any] | None:
        found = connection.execute(statement, values).mappings().first()
        return dict(found) if found is not None else None

    return find


def adder(*rows: Row) -> Callable[[Connection], None]:
    """Give work for `Database.write` that inserts rows in this order; what they leave open gets its default now."""
    made = [(_insert(cast("Table", row.__table__)), _filled(row)) for row in rows]

    def add(connection: Connection) -> None:
        for statement, values in made:
            connection.execute(statement, values)

    return add


def _insert(table: Table) -> Insert:
    if table not in _INSERTS:
        _INSERTS[table] = insert(table)
    return _INSERTS[table]


def _filled(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in cast("Table", row.__table__).columns:
        value = getattr(row, column.key)
        if value is None and column.default is not None:
            value = cast("Any", column.default).arg
            setattr(row, column.key, value)
        values[column.key] = value
    return values
