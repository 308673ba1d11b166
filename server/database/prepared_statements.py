"""Statements of every turn: compiled once, and in an SQLite file given to the driver directly.

SQLAlchemy prepares every execution of a statement again. For a turn, this takes five times as long as SQLite does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from msgspec import Struct
from sqlalchemy import Insert, Select, Table, exc, insert
from sqlalchemy.orm.attributes import manager_of_class

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Update

    from ragflow_lg.server.database.tables import Row

Values: TypeAlias = "Mapping[str, Any]"
_Row = TypeVar("_Row", bound="Row")
_Convert: TypeAlias = "Callable[[Any], Any] | None"

_KNOWN = "prepared_statements"
"""Where a connection keeps its compiled statements."""


class _Compiled(Struct, frozen=True):
    """A statement in SQLite's language."""

    sql: str
    defaults: dict[str, Any]
    """The values that need not be given."""
    places: tuple[tuple[str, _Convert], ...]
    """For each placeholder: the name of its value, and what converts it."""
    columns: tuple[tuple[str, _Convert], ...] = ()
    """For each selected column: its name, and what converts its values."""

    def run(self, driver: sqlite3.Connection, values: Values) -> sqlite3.Cursor:
        """Execute the statement."""
        complete = {**self.defaults, **values}
        given = [
            value if (value := complete[name]) is None or convert is None else convert(value)
            for name, convert in self.places
        ]
        return run_sql(driver, self.sql, given)


class PreparedStatement:
    """A statement with named values. It selects a row, or inserts or updates rows."""

    def __init__(self, statement: Select[*tuple[Any, ...]] | Insert | Update, columns: tuple[str, ...] = ()) -> None:
        """Initialize. An insert names the ``columns`` whose values it is given: all others get the table's defaults."""
        self._statement = statement
        self._columns = columns

    def first(self, connection: Connection, values: Values) -> dict[str, Any] | None:
        """Return the first row that is selected, by column, or None.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: If the database fails.
        """
        driver = sqlite_connection(connection)
        if driver is None:
            row = connection.execute(self._statement, values).mappings().first()
            return dict(row) if row is not None else None
        compiled = self._compile(connection)
        found = compiled.run(driver, values).fetchone()
        if found is None:
            return None
        return {
            name: value if convert is None else convert(value)
            for (name, convert), value in zip(compiled.columns, found, strict=True)
        }

    def execute(self, connection: Connection, values: Values) -> int:
        """Insert or update rows, and return their number.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: If the database fails.
        """
        driver = sqlite_connection(connection)
        if driver is None:
            return connection.execute(self._statement, values).rowcount
        return self._compile(connection).run(driver, values).rowcount

    def _compile(self, connection: Connection) -> _Compiled:
        """Return the statement for a connection, which keeps it: the keys of another engine encrypt other values."""
        known: dict[PreparedStatement, _Compiled] = connection.info.setdefault(_KNOWN, {})
        compiled = known.get(self)
        if compiled is None:
            compiled = known[self] = _compile(self._statement, connection.dialect, self._columns)
        return compiled


def sqlite_connection(connection: Connection) -> sqlite3.Connection | None:
    """Return the driver's connection to an SQLite file, or None for other databases."""
    if connection.dialect.driver != "pysqlite":
        return None
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def run_sql(driver: sqlite3.Connection, sql: str, values: list[Any]) -> sqlite3.Cursor:
    """Execute a statement.

    Raises:
        sqlalchemy.exc.DBAPIError: If it fails; the same class as from SQLAlchemy, without the values.
    """
    try:
        return driver.execute(sql, values)
    except sqlite3.Error as error:
        kind: type[exc.DBAPIError] = getattr(exc, type(error).__name__, exc.DBAPIError)
        raise kind(sql, None, error) from error


def _compile(
    statement: Select[*tuple[Any, ...]] | Insert | Update, dialect: Dialect, columns: tuple[str, ...]
) -> _Compiled:
    compiled = statement.compile(dialect=dialect, column_keys=list(columns) or None)
    binds = compiled.binds
    defaults = {name: bind.value for name, bind in binds.items() if not bind.required}
    if isinstance(statement, Insert):
        columns_by_name = statement.table.columns
        defaults = {
            name: cast("Any", columns_by_name[name].default).arg for name in binds if columns_by_name[name].default
        }
    names = compiled.positiontup or ()
    places = tuple((name, binds[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in names)
    selected = statement.selected_columns if isinstance(statement, Select) else ()
    read = tuple(
        (column.key or "", column.type.dialect_impl(dialect).result_processor(dialect, None)) for column in selected
    )
    return _Compiled(str(compiled), defaults, places, read)


# Rows

_INSERTS: dict[Table, PreparedStatement] = {}


def find_row(kind: type[_Row], statement: PreparedStatement, /, **key: Any) -> Callable[[Connection], _Row | None]:
    """Return a function for `Database.read` that returns the first row that a statement selects, or None."""

    def find(connection: Connection) -> _Row | None:
        values = statement.first(connection, key)
        return None if values is None else make_row(kind, values)

    return find


def make_row(kind: type[_Row], values: Mapping[str, Any]) -> _Row:
    """Return a row with these values. The ORM's constructor takes as long as the statement that selects them."""
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
