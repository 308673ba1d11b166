"""Sessions in an SQLite file, which only its owner may read. Several processes may use one file."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from checkpoints.cancels import CANCELS_TABLE
from checkpoints.runs import RUNS_TABLE
from checkpoints.saver import EPOCH, FENCED, NO_LEASE, RENEWED, CanvasSaver, Claim
from checkpoints.serializer import plain_serializer
from checkpoints.traces import TRACES_TABLE
from ragflow_lg.errors import CheckpointError

__all__ = ["SqliteBlobs", "Transactions", "open_sqlite", "sqlite_saver"]

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

_FENCE = f"""
CREATE TEMP TRIGGER IF NOT EXISTS fence_{{table}} BEFORE INSERT ON main.{{table}} {{when}}
BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE claimed_token() IS NOT coalesce(
        (SELECT token FROM main.leases WHERE thread_id = NEW.thread_id AND owner <> ''), {NO_LEASE});
    SELECT RAISE(ABORT, '{RENEWED}') WHERE claimed_epoch() IS NOT
        (SELECT CAST(text AS TEXT) FROM main.blobs WHERE thread_id = NEW.thread_id AND hash = '{EPOCH}');
END;
"""
"""Refuses a write within the transaction that would do it."""
_FENCED_TABLES = {"checkpoints": "", "writes": "", "blobs": f"WHEN NEW.hash <> '{EPOCH}'"}


class Transactions:
    """Makes what belongs together one transaction. A connection has only one at a time."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self._claim: Claim | None = None

    @asynccontextmanager
    async def begin(self, claim: Claim | None) -> AsyncGenerator[None]:
        """Commit what is written inside, or nothing of it."""
        async with self._turn:
            self._claim = claim
            try:
                yield
                if self._connection.in_transaction:
                    await self._connection.commit()
            except BaseException:
                await self._connection.rollback()  # whoever is cancelled meanwhile has it queued: it comes next
                raise

    def token(self) -> int:
        """Give the token of the open transaction's claim."""
        return self._claim.token if self._claim else NO_LEASE

    def epoch(self) -> str:
        """Give the epoch of the open transaction's claim."""
        return self._claim.epoch if self._claim else ""


class SqliteBlobs:
    """Blobs in a table.

    ``turns`` is the lock of the saver on the same connection: SQLite refuses a write that begins while a reader stands
    in the middle of its rows and somebody else has written since.
    """

    def __init__(self, connection: aiosqlite.Connection, transactions: Transactions, turns: asyncio.Lock) -> None:
        self._connection = connection
        self._transactions = transactions
        self._turns = turns

    async def epoch(self, thread: str) -> str:
        """Give the mark of a thread, made if there is none."""
        found = await self.find(thread, [EPOCH])
        if EPOCH not in found:
            async with self._transactions.begin(None):
                await self.put(thread, {EPOCH: secrets.token_hex(8).encode()})
            found = await self.find(thread, [EPOCH])
        return found.get(EPOCH, b"").decode()

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store texts in the transaction that is open, or a new one."""
        rows = [(thread, digest, text) for digest, text in blobs.items()]
        async with self._turns:
            await self._connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", rows)

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        found: dict[str, bytes] = {}
        for at in range(0, len(digests), 500):
            some = digests[at : at + 500]
            places = ", ".join("?" * len(some))
            query = f"SELECT hash, text FROM blobs WHERE thread_id = ? AND hash IN ({places})"
            rows: Any = await self._connection.execute_fetchall(query, (thread, *some))
            found.update(rows)
        return found

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread, in the transaction that is open, or a new one."""
        async with self._turns:
            await self._connection.execute("DELETE FROM blobs WHERE thread_id = ?", (thread,))


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
            await connection.executescript(_TABLES + RUNS_TABLE + TRACES_TABLE + CANCELS_TABLE)
        except sqlite3.Error as error:
            raise CheckpointError(f"{str(path)!r} is no session store: {error}.") from error
        yield connection
    finally:
        await connection.close()


async def sqlite_saver(connection: aiosqlite.Connection) -> CanvasSaver:
    """Make a saver.

    A write to a thread that somebody else has leased fails in the transaction that would do it.

    Raises:
        CheckpointError: if the file is no session store.
    """
    saver = AsyncSqliteSaver(connection, serde=plain_serializer())
    transactions = Transactions(connection)
    try:
        await saver.setup()
        await connection.execute("SELECT thread_id, checkpoint_ns, checkpoint_id, checkpoint FROM checkpoints LIMIT 0")
        define = cast("Any", connection).create_function
        await define("claimed_token", 0, transactions.token)
        await define("claimed_epoch", 0, transactions.epoch)
        for table, when in _FENCED_TABLES.items():
            await connection.executescript(_FENCE.format(table=table, when=when))
    except sqlite3.Error as error:
        raise CheckpointError(f"The file is no session store: {error}.") from error
    blobs = SqliteBlobs(connection, transactions, saver.lock)
    return CanvasSaver(saver, blobs, errors=(sqlite3.Error,), writing=transactions.begin)


def _prepared(path: Path) -> Path:
    """Make the file and its folder where they are missing.

    A file that is there is not opened: to close it again would take away the locks that SQLite holds on it for
    the connections of this process, and other processes would write over theirs.
    """
    path = path.expanduser()
    if path.is_dir():
        raise IsADirectoryError("it is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return path
