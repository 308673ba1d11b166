"""Prepared selects and inserts without the ORM, whose overhead matters in every turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Table, insert
from sqlalchemy.orm.attributes import manager_of_class

from ragflow_lg.server.database.prepared_statements import PreparedStatement

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragflow_lg.server.database.tables import Row

_Row = TypeVar("_Row", bound="Row")
_INSERTS: dict[Table, PreparedStatement] = {}


def select_first(
    statement: PreparedStatement, values: Mapping[str, Any]
) -> Callable[[Connection], dict[str, Any] | None]:
    """Return a function for `Database.read` that selects the first row and returns its values by column, or None."""
    return lambda connection: statement.first(connection, values)


def make_row(kind: type[_Row], values: Mapping[str, Any]) -> _Row:
    """Return a row with the values that have been selected. The ORM's constructor takes as long as the selection."""
    row: Any = manager_of_class(kind).new_instance()
    row.__dict__.update(values)
    return row


def insert_rows(*rows: Row) -> Callable[[Connection], None]:
    """Return a function for `Database.write` that inserts rows in this order, with defaults for unset columns."""
    inserts = [(_insert(cast("Table", row.__table__)), _values(row)) for row in rows]

    def add(connection: Connection) -> None:
        for statement, values in inserts:
            statement.execute(connection, values)

    return add


def _insert(table: Table) -> PreparedStatement:
    if table not in _INSERTS:
        _INSERTS[table] = PreparedStatement(insert(table), tuple(table.columns.keys()))
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
