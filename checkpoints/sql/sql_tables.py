"""Checkpoints, pending writes and blobs in the tables of a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ragflow_lg.checkpoints.sql.sql_database import Rows, SqlDatabase, Statement, marks
from ragflow_lg.checkpoints.steps.thread_tables import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    CheckpointKey,
    Precondition,
    StoredCheckpoint,
)

PAGE = 500
"""How many values a statement has at most in a list."""

_OF_KEY = "thread_id = ? AND namespace = ? AND id = ?"
_PUT = (
    "INSERT INTO session_checkpoints VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread_id, namespace, id) DO UPDATE SET"
    " parent = excluded.parent, checkpoint = excluded.checkpoint, metadata = excluded.metadata"
)
_PUT_WRITE = (
    "INSERT INTO session_writes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread_id, namespace, id, task, number)"
)
_ADD = f"{_PUT_WRITE} DO NOTHING"
_REPLACE = f"{_PUT_WRITE} DO UPDATE SET channel = excluded.channel, value = excluded.value"
_GET = (
    "SELECT c.thread_id, c.namespace, c.id, c.parent, c.checkpoint, c.metadata, w.task, w.channel, w.value"
    " FROM session_checkpoints AS c LEFT JOIN session_writes AS w ON"
    " w.thread_id = c.thread_id AND w.namespace = c.namespace AND w.id = c.id"
    " WHERE c.thread_id = ? AND c.namespace = ? AND c.id = {} ORDER BY w.task, w.number"
)
_NEWEST = "(SELECT max(id) FROM session_checkpoints WHERE thread_id = ? AND namespace = ?)"


class SqlTables:
    """The rows of all threads. Implements `ragflow_lg.checkpoints.steps.thread_tables.ThreadTables`."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database
        self.errors = database.errors

    def transaction(self, precondition: Precondition) -> AbstractAsyncContextManager[None]:
        """Open a transaction that fails if the precondition does not hold."""
        return self.database.transaction(precondition.thread, _checks(precondition))

    async def put(self, key: CheckpointKey, parent: str, checkpoint: bytes, metadata: bytes) -> None:
        """Store a checkpoint."""
        await self.database.write(key.thread, Statement(_PUT, (*key, parent, checkpoint, metadata)))

    async def put_writes(self, key: CheckpointKey, task: str, writes: Sequence[tuple[int, str, bytes]]) -> None:
        """Store a task's writes. Only those with a negative index replace others."""
        rows = [Statement(_REPLACE if write[0] < 0 else _ADD, (*key, task, *write)) for write in writes]
        await self.database.write(key.thread, *rows)

    async def get(self, key: CheckpointKey) -> StoredCheckpoint | None:
        """Return a checkpoint, or the newest one of the namespace if the key has no id."""
        place = (key.checkpoint,) if key.checkpoint else key[:2]
        rows = await self.database.read(_GET.format("?" if key.checkpoint else _NEWEST), (*key[:2], *place))
        if not rows:
            return None
        writes: Any = [tuple(row[6:]) for row in rows if row[6] is not None]
        thread, namespace, id_, parent, checkpoint, metadata = rows[0][:6]
        return StoredCheckpoint(CheckpointKey(thread, namespace, id_), parent, checkpoint, metadata, writes)

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first."""
        wanted = {"thread_id = ?": thread, "namespace = ?": namespace, "id < ?": before or None, "LIMIT ?": limit}
        given = {text: value for text, value in wanted.items() if value is not None}
        conditions = [text for text in given if text != "LIMIT ?"]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT thread_id, namespace, id FROM session_checkpoints {where} ORDER BY id DESC"
        for row in await self.database.read(f"{query}{' LIMIT ?' if limit is not None else ''}", list(given.values())):
            yield CheckpointKey(*row)

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints of one thread and their pending writes."""
        tables = ("session_writes", "session_checkpoints")
        rows = [Statement(f"DELETE FROM {table} WHERE {_OF_KEY}", key) for key in keys for table in tables]
        await self.database.write(keys[0].thread, *rows)

    async def delete_thread(self, thread: str) -> None:
        """Delete everything that belongs to a thread."""
        tables = ("session_writes", "session_checkpoints", "session_blobs")
        rows = [Statement(f"DELETE FROM {table} WHERE thread_id = ?", (thread,)) for table in tables]
        await self.database.write(thread, *rows)

    async def put_blobs(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs."""
        query = "INSERT INTO session_blobs VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        await self.database.write(thread, *[Statement(query, (thread, *blob)) for blob in blobs.items()])

    async def find_blobs(self, thread: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        found: dict[str, bytes] = {}
        for page in _pages(names):
            query = f"SELECT name, content FROM session_blobs WHERE thread_id = ? AND name IN {marks(page)}"
            found.update([(row[0], row[1]) for row in await self.database.read(query, (thread, *page))])
        return found

    async def blob_names(self, thread: str) -> Sequence[str]:
        """Return the names of all of a thread's blobs."""
        rows = await self.database.read("SELECT name FROM session_blobs WHERE thread_id = ?", (thread,))
        return [row[0] for row in rows]

    async def erase_blobs(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs."""
        for page in _pages(names):
            query = f"DELETE FROM session_blobs WHERE thread_id = ? AND name IN {marks(page)}"
            await self.database.write(thread, Statement(query, (thread, *page)))


def _check_found(rows: Rows) -> str:
    return "" if rows else CHECKPOINT_MISSING


def _pages(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + PAGE] for start in range(0, len(names), PAGE)]


def _checks(precondition: Precondition) -> list[Statement]:
    """Return the statements that check a precondition."""
    thread, checkpoint = precondition.thread, precondition.checkpoint

    def check_lease(rows: Rows) -> str:
        token = rows[0][0] if rows else NO_LEASE
        if token == precondition.token:
            return ""
        return LEASE_MISSING if token == NO_LEASE else LEASE_TAKEN

    found = "SELECT token FROM leases WHERE thread_id = ? AND owner <> ''"
    checks = [Statement(found, (thread,), check_lease)]
    if checkpoint is not None:
        query = f"SELECT 1 FROM session_checkpoints WHERE {_OF_KEY}"
        checks.append(Statement(query, checkpoint, _check_found))
    for page in _pages(list(precondition.blobs)):

        def check_blobs(rows: Rows, count: int = len(page)) -> str:
            return "" if rows[0][0] == count else BLOB_MISSING

        query = f"SELECT count(*) FROM session_blobs WHERE thread_id = ? AND name IN {marks(page)}"
        checks.append(Statement(query, (thread, *page), check_blobs))
    return checks
