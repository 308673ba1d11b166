"""An SQLite file with its own thread, so that several statements need only one thread switch."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ragflow_lg.base.errors import CheckpointError

BUSY_TIMEOUT_S = 10.0

TABLES = """
CREATE TABLE IF NOT EXISTS blobs (
    thread_id TEXT NOT NULL, hash TEXT NOT NULL, text BLOB NOT NULL, PRIMARY KEY (thread_id, hash)
);
CREATE TABLE IF NOT EXISTS leases (
    thread_id TEXT PRIMARY KEY, token INTEGER NOT NULL, owner TEXT NOT NULL, expires_ms INTEGER NOT NULL,
    expires_uptime_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, canvas_id TEXT NOT NULL,
    canvas_hash TEXT NOT NULL, tenant TEXT NOT NULL, checkpoint TEXT NOT NULL, parent_run TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, is_cancel_requested INTEGER NOT NULL,
    started_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
    model TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_of_session ON runs (session, started_ms);
CREATE TABLE IF NOT EXISTS traces (
    run_id TEXT PRIMARY KEY, session TEXT NOT NULL, started_ms INTEGER NOT NULL, trace TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS traces_of_session ON traces (session, started_ms);
CREATE TABLE IF NOT EXISTS node_logs (
    run_id TEXT PRIMARY KEY, session TEXT NOT NULL, started_ms INTEGER NOT NULL, trace TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS node_logs_of_session ON node_logs (session, started_ms);
CREATE TABLE IF NOT EXISTS cancels (session TEXT PRIMARY KEY) WITHOUT ROWID;
"""
"""Session tables in addition to LangGraph's own.

Blobs are stored in the order in which they are written. Ordered by their hashes, each write would change pages all over
the file: it would take more time and space the longer the conversation is.
"""

FILE_GONE = "its file has been deleted or replaced; start again"
"""Message of the error raised if the file is no longer at its path."""

_SYNC = {True: "PRAGMA synchronous=FULL", False: "PRAGMA synchronous=NORMAL"}
"""The statements that let transactions survive a loss of power, or not."""

_T = TypeVar("_T")


class SqliteFile:
    """One connection. Jobs run in order and never interleave."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor, path: Path) -> None:
        self.connection = connection
        """For use only on the file's thread."""
        self._thread = thread
        self.path = path
        self._text = str(path)
        self._inode = _inode(self._text)

    async def do(self, work: Callable[[], _T]) -> _T:
        """Run work on the file's thread. If the caller is cancelled, the work is done either completely or not at all.

        Raises:
            sqlite3.Error: if a statement fails, or the file has been deleted or replaced: nobody would find the data.
        """
        return await self.begin(work)

    def begin(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Run work on the file's thread, and return the future of its result."""
        return asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Write in one transaction, which an error rolls back; for the thread only."""
        self.connection.execute("BEGIN IMMEDIATE")  # one that begins with a read fails after a concurrent write
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.rollback()
            raise

    def _work(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        finally:
            if _inode(self._text) != self._inode:
                raise sqlite3.OperationalError(FILE_GONE)

    async def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Execute one statement in its own transaction and return its rows.

        The rows are fetched at once: a write during an unfinished read fails immediately instead of waiting.

        Raises:
            sqlite3.Error: if the statement fails.
        """
        return await self.do(lambda: self.connection.execute(query, values).fetchall())


@asynccontextmanager
async def open_sqlite(path: Path, *, survives_power_loss: bool = True) -> AsyncGenerator[SqliteFile]:
    """Open a file, creating it if necessary. Only its owner can read a new file.

    Written data survives the process. If the machine itself goes down, the latest data may be lost, unless
    ``survives_power_loss`` is set, which costs one disk write per transaction.

    Raises:
        CheckpointError: if the file cannot be opened or is not a session store.
    """
    loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "session-store")
    try:
        connection = await loop.run_in_executor(thread, _connect, path)
        file = SqliteFile(connection, thread, path)
        try:
            await file.do(lambda: _prepare(file.connection, path, survives_power_loss))
            yield file
        finally:
            await loop.run_in_executor(thread, file.connection.close)
    finally:
        thread.shutdown(wait=False)


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path = _create_file(path)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise unusable_file(path, error) from error
    # One damaged text would otherwise fail every statement that finds its row, such as a listing of all sessions.
    connection.text_factory = _decode
    return connection


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _prepare(connection: sqlite3.Connection, path: Path, survives_power_loss: bool) -> None:
    try:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # has an effect on new files only
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(_SYNC[survives_power_loss])
        connection.executescript(TABLES)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise unusable_file(path, error) from error


class Failure(NamedTuple):
    """Why a file cannot be used as a session store."""

    what: str
    advice: str


def describe_failure(path: Path, error: BaseException) -> Failure:
    """Return why a file cannot be used as a session store, and what to do."""
    text, store = str(error), f"The session store {str(path)!r}"
    if isinstance(error, UnicodeDecodeError) or "malformed" in text:
        return Failure(f"{store} is damaged: {text}.", recovery_advice(path))
    if "unable to open" in text or "readonly" in text or "disk I/O" in text:
        advice = "Its folder and the file must be writable, and the disk must have free space."
        return Failure(f"{store} cannot be opened for writing: {text}.", advice)
    if "full" in text:
        return Failure(f"{store} cannot be opened: {text}.", "Free some disk space.")
    if "locked" in text:
        return Failure(f"{store} cannot be opened: {text}.", "Try again when the other process has finished.")
    if isinstance(error, OSError):
        return Failure(f"{store} cannot be opened: {error.strerror or text}.", "Choose another path.")
    advice = "Choose another path, or move the file away; if it was a session store, restore a backup."
    return Failure(f"{str(path)!r} is not a session store: {text}.", advice)


def recovery_advice(path: Path) -> str:
    """Return how to save what can be read from a damaged file."""
    name = shlex.quote(str(path))
    return f"Restore a backup, or copy it and save what can be read: sqlite3 {name} .recover | sqlite3 NEW.db"


def unusable_file(path: Path, error: Exception) -> CheckpointError:
    """Return the error for a file that cannot be used as a session store."""
    return CheckpointError(" ".join(describe_failure(path, error)))


def _inode(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _create_file(path: Path) -> Path:
    """Create the file and its folder if they are missing, and return the file's path.

    An existing file is not opened, because closing it would release SQLite's locks for this process's other
    connections, and other processes would write concurrently.
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
