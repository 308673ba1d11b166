"""Sessions in an SQLite file, which only its owner may read. Several processes may use one file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from checkpoints.cancels import CANCELS_TABLE
from checkpoints.runs import RUNS_TABLE
from checkpoints.saver import FENCED, CanvasSaver
from checkpoints.serializer import plain_serializer
from ragflow_lg.errors import CheckpointError

__all__ = ["SqliteBlobs", "open_sqlite", "sqlite_saver"]

BUSY_TIMEOUT_S = 10.0

_TABLES = """
CREATE TABLE IF NOT EXISTS blobs (
    thread_id TEXT NOT NULL, hash TEXT NOT NULL, text BLOB NOT NULL, PRIMARY KEY (thread_id, hash)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    thread_id TEXT PRIMARY KEY, token INTEGER NOT NULL, owner TEXT NOT NULL, expires_ms INTEGER NOT NULL,
    expires_uptime_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""

_FENCE = """
CREATE TEMP TRIGGER IF NOT EXISTS fence_{table} BEFORE INSERT ON main.{table}
WHEN EXISTS (
    SELECT 1 FROM main.leases WHERE thread_id = NEW.thread_id AND owner <> '' AND token <> held_token(NEW.thread_id)
)
BEGIN SELECT RAISE(ABORT, '{message}'); END;
"""


class SqliteBlobs:
    """Blobs in a table."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def put(self, thread: str, blobs: Mapping[str, bytes], *, now: bool = False) -> None:
        """Store texts. Without ``now`` the saver's next write commits them along with what refers to them."""
        rows = [(thread, digest, text) for digest, text in blobs.items()]
        await self._connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", rows)
        if now:
            await self._connection.commit()

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        found: dict[str, bytes] = {}
        for at in range(0, len(digests), 500):
            some = digests[at : at + 500]
            places = ", ".join("?" * len(some))
            query = f"SELECT hash, text FROM blobs WHERE thread_id = ? AND hash IN ({places})"
            async with self._connection.execute(query, (thread, *some)) as rows:
                found.update({row[0]: row[1] async for row in rows})
        return found

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        await self._connection.execute("DELETE FROM blobs WHERE thread_id = ?", (thread,))
        await self._connection.commit()


@asynccontextmanager
async def open_sqlite(path: Path, *, commits_itself: bool = False) -> AsyncGenerator[aiosqlite.Connection]:
    """Open a file, made if it is missing with rights for its owner only.

    ``commits_itself`` makes every statement a transaction of its own.

    Raises:
        CheckpointError: if it cannot be opened, or is no session store.
    """
    try:
        path = _prepared(path)
        level: Any = None if commits_itself else "DEFERRED"
        connection = await aiosqlite.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=level)
    except (OSError, sqlite3.Error) as error:
        raise CheckpointError(f"The session store {str(path)!r} cannot be opened: {error}.") from error
    try:
        try:
            await connection.execute("PRAGMA journal_mode=WAL")
            await connection.executescript(_TABLES + RUNS_TABLE + CANCELS_TABLE)
        except sqlite3.Error as error:
            raise CheckpointError(f"{str(path)!r} is no session store: {error}.") from error
        yield connection
    finally:
        await connection.close()


async def sqlite_saver(connection: aiosqlite.Connection, held: Mapping[str, int]) -> CanvasSaver:
    """Make a saver. ``held`` maps threads to the fencing tokens of the leases that this process has.

    A write to a thread that somebody else has leased fails in the transaction that would do it.

    Raises:
        CheckpointError: if the file is no session store.
    """

    def token_of(thread: str) -> int:
        return held.get(thread, -1)

    saver = AsyncSqliteSaver(connection, serde=plain_serializer())
    try:
        await saver.setup()
        await connection.execute("SELECT thread_id, checkpoint_ns, checkpoint_id, checkpoint FROM checkpoints LIMIT 0")
        await connection.create_function("held_token", 1, token_of)  # pyright: ignore[reportUnknownMemberType]
        for table in ("checkpoints", "writes", "blobs"):
            await connection.executescript(_FENCE.format(table=table, message=FENCED))
    except sqlite3.Error as error:
        raise CheckpointError(f"The file is no session store: {error}.") from error
    # A write that failed leaves a transaction open, which would keep all others out.
    return CanvasSaver(saver, SqliteBlobs(connection), errors=(sqlite3.Error,), give_up=connection.rollback)


def _prepared(path: Path) -> Path:
    """Make the file and its folder where they are missing."""
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return path
