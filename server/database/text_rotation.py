"""Encrypts the texts in the database again, with the key that encrypts now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Table, Text, bindparam, or_, select, tuple_, type_coerce, update

from ragflow_lg.server.database.tables import Row
from ragflow_lg.server.database.text_types import PREFIX, EncryptedText

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection

    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.server.database.database import Database

PAGE = 200


class EncryptedTable(NamedTuple):
    """A table with texts that are encrypted."""

    table: Table
    columns: Sequence[Column[Any]]


def encrypted_tables() -> list[EncryptedTable]:
    """Return the tables with encrypted texts."""
    tables = ((table, [each for each in table.columns if isinstance(each.type, EncryptedText)]) for table in _all())
    return [EncryptedTable(table, columns) for table, columns in tables if columns]


def _all() -> list[Table]:
    return Row.metadata.sorted_tables


async def reencrypt_table(database: Database, table: EncryptedTable) -> AsyncIterator[int]:
    """Encrypt the texts in a table with the current key, page by page, and yield how many rows each page had to change.

    Raises:
        SessionKeyError: If a text cannot be decrypted.
        DatabaseError: If the database fails.
    """
    keys = database.keys
    if keys is None:
        return
    place: Sequence[Any] | None = None
    while True:
        rows = await database.read(_read_page(table, place))
        if not rows:
            return
        changes = [change for row in rows if (change := _change(table, row, keys))]
        if changes:
            await database.write(_write(table, changes))
        yield len(changes)
        place = [rows[-1][f"key_{column.name}"] for column in table.table.primary_key]


def _read_page(table: EncryptedTable, after: Sequence[Any] | None) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a function that reads the stored texts and the keys of some rows, in the order of their keys."""
    key = list(table.table.primary_key)
    has_text: list[ColumnElement[bool]] = [type_coerce(column, Text) != "" for column in table.columns]
    statement = select(
        *(column.label(f"key_{column.name}") for column in key),
        *(type_coerce(column, Text).label(column.name) for column in table.columns),
    ).where(or_(*has_text))
    if after is not None:
        statement = statement.where(tuple_(*key) > tuple(after))
    statement = statement.order_by(*key).limit(PAGE)

    def read(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(statement).mappings()]

    return read


def _change(table: EncryptedTable, row: dict[str, Any], keys: KeyRing) -> dict[str, Any]:
    """Return the parameters of the update of a row, or nothing if all its texts are encrypted with the current key."""
    texts = {column.name: row[column.name] for column in table.columns}
    if all(not text or keys.is_current(text.removeprefix(PREFIX)) for text in texts.values()):
        return {}
    plain = {
        column.name: cast("EncryptedText", column.type).decrypt(texts[column.name], keys) if texts[column.name] else ""
        for column in table.columns
    }
    old = {f"old_{name}": text for name, text in texts.items()}
    return {
        **{name: row[name] for name in row if name.startswith("key_")},
        **old,
        **{f"new_{n}": plain[n] for n in plain},
    }


def _write(table: EncryptedTable, changes: list[dict[str, Any]]) -> Callable[[Connection], None]:
    """Return a function that stores texts, unless the row has been changed meanwhile: then it is encrypted already."""
    same = [column == bindparam(f"key_{column.name}") for column in table.table.primary_key]
    same += [
        type_coerce(column, Text).is_not_distinct_from(bindparam(f"old_{column.name}", type_=Text()))
        for column in table.columns
    ]
    values: dict[str, Any] = {column.name: bindparam(f"new_{column.name}") for column in table.columns}
    statement = update(table.table).where(*same).values(values)

    def write(connection: Connection) -> None:
        connection.execute(statement, changes)

    return write
