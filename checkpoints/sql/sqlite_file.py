"""Tables in an SQLite file, which several processes can share, or in memory."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple, TypeVar

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.sql.sql_database import TABLES, Rows, SqlDatabase, Statement

BUSY_TIMEOUT_S = 10.0
_TABLES = TABLES.format(bytes="BLOB")

FILE_GONE = "its file has been deleted or replaced; start again"
"""Message of the error raised if the file is no longer at its path."""

_T = TypeVar("_T")


class SqliteFile(SqlDatabase):
    """One connection, which is used on one thread: what it does never interleaves. Without a path, it is in memory.

    If a caller is cancelled, its statements are executed either completely or not at all.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)
    now_ms: ClassVar[str] = "CAST((julianday('now') - 2440587.5) * 86400000 AS BIGINT)"

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self.connection = connection
        """For use only on the file's thread."""
        self._path = path
        self._inode = _inode(path)
        self._thread = ThreadPoolExecutor(1, "session-store") if path else None
        self._lock = Lock()

    async def do(self, work: Callable[[], _T]) -> _T:
        """Run work on the file's thread.

        Raises:
            sqlite3.Error: if a statement fails, or the file has been deleted or replaced: nobody would find the data.
        """
        if self._thread is None:
            with self._lock:  # other threads may have event loops of their own
                return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        finally:
            if _inode(self._path) != self._inode:
                raise sqlite3.OperationalError(FILE_GONE)

    async def read(self, query: str, values: Sequence[Any] = ()) -> Rows:
        """Return the rows of a query.

        They are fetched at once: a write during an unfinished read fails immediately instead of waiting.
        """
        return await self.do(lambda: self.connection.execute(query, values).fetchall())

    async def commit(self, thread: str, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in a transaction, which waits for those of all others."""
        return await self.do(lambda: self._commit(statements))

    def _commit(self, statements: Sequence[Statement]) -> Sequence[Rows]:
        self.connection.execute("BEGIN IMMEDIATE")  # one that begins with a read fails after a concurrent write
        try:
            results: list[Rows] = []
            for query, values, check in statements:
                rows = self.connection.execute(query, values).fetchall()
                if check is not None and (message := check(rows)):
                    raise sqlite3.OperationalError(message)
                results.append(rows)
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.rollback()
            raise
        return results

    async def aclose(self) -> None:
        """Close the file. Without a path, its data is lost."""
        if self._thread is None:
            self.connection.close()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.connection.close)
            self._thread.shutdown(wait=False)


def open_memory() -> SqliteFile:
    """Return tables in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.executescript(_TABLES)
    return SqliteFile(connection)


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncGenerator[SqliteFile]:
    """Open a file, creating it if necessary. Only its owner can read a new file. Written data survives a power loss.

    Raises:
        CheckpointError: if the file cannot be opened or is not a session store.
    """
    try:
        file = SqliteFile(*await asyncio.to_thread(_connect, path))
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
        raise unusable_file(path, error) from error
    try:
        yield file
    finally:
        await file.aclose()


def _connect(path: Path) -> tuple[sqlite3.Connection, Path]:
    path = _create_file(path)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    # One damaged text would otherwise fail every statement that finds its row, such as a listing of all sessions.
    connection.text_factory = _decode
    try:
        connection.execute("PRAGMA auto_vacuum=FULL")  # has an effect on new files only
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(_TABLES)
        for table in ("session_checkpoints", "session_writes", "session_blobs", "leases", "runs", "traces"):
            connection.execute(f"SELECT * FROM {table} LIMIT 0")
    except BaseException:
        connection.close()
        raise
    return connection, path


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


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


def _inode(path: Path | None) -> tuple[int, int] | None:
    try:
        facts = os.stat(path) if path else None
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if facts else None


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
