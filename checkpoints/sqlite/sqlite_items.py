"""Items in an SQLite file. Vectors are compared in the file's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.items.item_store import FoundItem, Namespace, Place, RequiredItem, StoredItem
from ragflow_lg.checkpoints.items.item_vectors import VectorCache, VectorTable, join_vectors
from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

TABLE = """
CREATE TABLE IF NOT EXISTS items (
    namespace TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    vector BLOB NOT NULL, model TEXT NOT NULL DEFAULT '', PRIMARY KEY (namespace, key)
);
CREATE INDEX IF NOT EXISTS items_by_time ON items (namespace, updated_at);
CREATE TABLE IF NOT EXISTS item_versions (namespace TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
"""
"""Each write gives its namespace a version that none had before, so that processes know when to read vectors again.

The row ``''`` has the highest version. A namespace without items has no row: its labels may name a person.
Namespaces are the concatenated JSON texts of their labels, so that a prefix of labels is a prefix of the text."""

_COLUMNS = "namespace, key, value, created_at, updated_at"
_PUT = (
    f"INSERT INTO items ({_COLUMNS}, vector, model) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, key) DO UPDATE"
    " SET value = excluded.value, updated_at = excluded.updated_at, vector = excluded.vector, model = excluded.model"
)
_ADD_MODEL = "ALTER TABLE items ADD COLUMN model TEXT NOT NULL DEFAULT ''"
_RAISE = "INSERT INTO item_versions VALUES ('', 1) ON CONFLICT (namespace) DO UPDATE SET version = version + 1"
_SET_VERSION = "INSERT OR REPLACE INTO item_versions SELECT ?, version FROM item_versions WHERE namespace = ''"
_DROP_VERSION = (
    "DELETE FROM item_versions WHERE namespace = ?1 AND NOT EXISTS (SELECT 1 FROM items WHERE namespace = ?1)"
)
_UPDATED_AT = "SELECT updated_at FROM items WHERE namespace = ? AND key = ?"
_INSIDE = "namespace >= ? AND namespace < ?"
_AFTER_ALL = "\U0010ffff"


class SqliteItems:
    """A `ragflow_lg.checkpoints.items.item_store.ItemTable` in the table ``items``."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._vectors = VectorCache()

    async def create(self) -> None:
        """Create the table if it does not exist."""
        with translate_errors(sqlite3.Error, ValueError):
            await self._file.do(self._create)

    def _create(self) -> None:
        connection = self._file.connection
        connection.executescript(TABLE)
        columns = [row[1] for row in connection.execute("PRAGMA table_info(items)")]
        if "model" not in columns:
            with suppress(sqlite3.OperationalError):  # another process may have added it in the meantime
                connection.execute(_ADD_MODEL)

    async def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return an item."""
        query = f"SELECT {_COLUMNS} FROM items WHERE namespace = ? AND key = ?"
        with translate_errors(sqlite3.Error, ValueError):
            rows = await self._file.rows(query, (_text_of(namespace), key))
        return _item(rows[0]) if rows else None

    async def put(
        self, items: Sequence[StoredItem], deleted: Sequence[Place], *, required: RequiredItem | None = None
    ) -> bool:
        """Store and delete items in one transaction, unless the required one does not exist."""
        rows = [(_text_of(i.namespace), i.key, i.value, i.created_at, i.updated_at, i.vector, i.model) for i in items]
        keys = [(_text_of(namespace), key) for namespace, key in deleted]
        changed = [(namespace,) for namespace in {row[0] for row in (*rows, *keys)}]

        def write() -> bool:
            with self._file.transaction() as connection:
                if required is not None and not _is_kept(connection, required):
                    return False
                connection.executemany(_PUT, rows)
                connection.executemany("DELETE FROM items WHERE namespace = ? AND key = ?", keys)
                connection.execute(_RAISE)
                connection.executemany(_SET_VERSION, changed)
                connection.executemany(_DROP_VERSION, changed)
                return True

        with translate_errors(sqlite3.Error, ValueError):
            return await self._file.do(write)

    async def find(self, prefix: Namespace, vector: bytes, count: int, model: str = "") -> Sequence[FoundItem]:
        """Return items, most similar or newest first."""
        place = _text_of(prefix), _text_of(prefix) + _AFTER_ALL
        with translate_errors(sqlite3.Error, ValueError):
            if vector:
                return await self._file.do(lambda: self._most_similar(place, vector, count, model))
            query = f"SELECT {_COLUMNS} FROM items WHERE {_INSIDE} ORDER BY updated_at DESC, key LIMIT ?"
            return [FoundItem(_item(row)) for row in await self._file.rows(query, (*place, count))]

    async def foreign(self, prefix: Namespace, model: str, count: int) -> Sequence[StoredItem]:
        """Return items with a vector of another model."""
        query = f"SELECT {_COLUMNS} FROM items WHERE {_INSIDE} AND model <> ? AND length(vector) > 0 LIMIT ?"
        place = _text_of(prefix), _text_of(prefix) + _AFTER_ALL
        with translate_errors(sqlite3.Error, ValueError):
            return [_item(row) for row in await self._file.rows(query, (*place, model, count))]

    async def outdated(self, prefix: Namespace, before: float, kept: int, count: int) -> Sequence[Place]:
        """Return items that were written before a time, or that are too many."""
        place = _text_of(prefix), _text_of(prefix) + _AFTER_ALL
        with translate_errors(sqlite3.Error, ValueError):
            ((total,),) = await self._file.rows(f"SELECT count(*) FROM items WHERE {_INSIDE}", place)
            if total > kept:
                query = f"SELECT namespace, key FROM items WHERE {_INSIDE} ORDER BY updated_at LIMIT ?"
                rows = await self._file.rows(query, (*place, min(total - kept, count)))
            else:
                query = f"SELECT namespace, key FROM items WHERE {_INSIDE} AND updated_at < ? LIMIT ?"
                rows = await self._file.rows(query, (*place, before, count))
        return [(_labels_of(namespace), key) for namespace, key in rows]

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the namespaces of all items."""
        with translate_errors(sqlite3.Error, ValueError):
            rows = await self._file.rows("SELECT DISTINCT namespace FROM items")
        return sorted(_labels_of(row[0]) for row in rows)

    def _most_similar(self, place: tuple[str, str], vector: bytes, count: int, model: str) -> list[FoundItem]:
        query = f"SELECT count(*), ifnull(sum(version), 0) FROM item_versions WHERE {_INSIDE}"
        version = self._file.connection.execute(query, place).fetchone()
        key = place, len(vector), model
        table = self._vectors.get(key, version, lambda: self._read_vectors(place, len(vector), model))
        score_of = dict(table.most_similar(vector, count))
        # The place is checked again, because a VACUUM gives other numbers to rows.
        query = f"SELECT rowid, {_COLUMNS} FROM items WHERE rowid IN (SELECT value FROM json_each(?)) AND {_INSIDE}"
        values = orjson.dumps(list(score_of)).decode(), *place
        items = {int(row[0]): _item(row[1:]) for row in self._file.connection.execute(query, values)}
        return [FoundItem(items[number], score) for number, score in score_of.items() if number in items]

    def _read_vectors(self, place: tuple[str, str], size: int, model: str) -> VectorTable:
        query = f"SELECT rowid, vector FROM items WHERE {_INSIDE} AND length(vector) = ? AND model = ?"
        rows = self._file.connection.execute(query, (*place, size, model)).fetchall()
        return join_vectors([row[0] for row in rows], [row[1] for row in rows], size)


def _is_kept(connection: sqlite3.Connection, required: RequiredItem) -> bool:
    row = connection.execute(_UPDATED_AT, (_text_of(required.namespace), required.key)).fetchone()
    return row is not None and required.is_met_by(row[0])


def _text_of(namespace: Namespace) -> str:
    return "".join(f"{orjson.dumps(label).decode()}," for label in namespace)


def _labels_of(text: str) -> Namespace:
    return tuple(orjson.loads(f"[{text.removesuffix(',')}]"))


def _item(row: Sequence[Any]) -> StoredItem:
    namespace, key, value, created_at, updated_at = row
    return StoredItem(_labels_of(namespace), key, bytes(value), float(created_at), float(updated_at))
