"""Prepared selects and inserts without the ORM, whose overhead matters in every turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Insert, Table, insert

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from ragflow_lg.server.database.tables import Row

_INSERTS: dict[Table, Insert] = {}


def select_first(statement: Select[Any], values: Mapping[str, Any]) -> Callable[[Connection], dict[str, Any] | None]:
    """Return a function for `Database.read` that selects the first row and returns its values by column, or None."""

    def find(connection: Connection) -> dict[str, Any] | None:
        row = connection.execute(statement, values).mappings().first()
        return dict(row) if row is not None else None

    return find


def insert_rows(*rows: Row) -> Callable[[Connection], None]:
    """Return a function for `Database.write` that inserts rows in this order, with defaults for unset columns."""
    inserts = [(_insert(cast("Table", row.__table__)), _values(row)) for row in rows]

    def add(connection: Connection) -> None:
        for statement, values in inserts:
            connection.execute(statement, values)

    return add


def _insert(table: Table) -> Insert:
    if table not in _INSERTS:
        _INSERTS[table] = insert(table)
    return _INSERTS[table]


def _values(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in cast("Table", row.__table__).columns:
        value = getattr(row, column.key)
        if value is None and column.default is not None:
            value = cast("Any", column.default).arg
            setattr(row, column.key, value)
        values[column.key] = value
    return values
