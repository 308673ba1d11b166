"""The one SQLite file of the embedded knowledge base, which only its owner may read. Any thread may use it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.base.errors import ServiceError

__all__ = ["KnowledgeDatabase"]

BUSY_TIMEOUT_S = 30.0
_APPLICATION_ID = 0x72666B62
_VERSION = 1
_TABLES = """
CREATE TABLE datasets (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    embedding_model TEXT NOT NULL, dims INTEGER NOT NULL, chunk_tokens INTEGER NOT NULL,
    overlap_tokens INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, dataset INTEGER NOT NULL, name TEXT NOT NULL,
    source TEXT NOT NULL, hash TEXT NOT NULL, metadata TEXT NOT NULL, chunks INTEGER NOT NULL,
    is_complete INTEGER NOT NULL DEFAULT 0, UNIQUE (dataset, name)
);
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, dataset INTEGER NOT NULL, document INTEGER NOT NULL,
    place INTEGER NOT NULL, content TEXT NOT NULL, positions TEXT NOT NULL, UNIQUE (document, place)
);
"""


class _Opened(NamedTuple):
    """A connection, and the number of the file that it is to."""

    connection: sqlite3.Connection
    file: tuple[int, int] | None


class KnowledgeDatabase:
    """Connections to the file. It is made when something is written first; until then there are no datasets."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._idle: list[_Opened] = []
        self._lock = threading.Lock()

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # whoever opens it is told why that cannot be done
            return True
        return True

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Give a connection that sees one state of the file.

        Raises:
            ServiceError: if the file cannot be opened, is something else, or is damaged.
        """
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Give a connection whose writes are stored together at the end, or not at all.

        Raises:
            ServiceError: if the file cannot be made, opened or written.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def close(self) -> None:
        """Close all connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for opened in idle:
            opened.connection.close()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        try:
            try:
                opened = self._take() or self._open()
            except OSError as error:  # one from the caller's work is no matter of ours
                raise ServiceError(f"{self._what} cannot be used: {error.strerror or error}.") from error
            try:
                yield opened.connection
            except BaseException:
                opened.connection.close()
                raise
            with self._lock:
                self._idle.append(opened)
        except sqlite3.OperationalError as error:
            busy = "locked" in str(error)
            why = "another process has been writing to it for too long; try again" if busy else str(error)
            raise ServiceError(f"{self._what} cannot be used: {why}.", is_retryable=busy) from error
        except UnicodeError as error:  # of names and messages within a damaged file
            raise ServiceError(f"{self._what} cannot be used: it is damaged ({error}).") from error
        except sqlite3.Error as error:
            raise ServiceError(f"{self._what} cannot be used: {error}.") from error

    @property
    def _what(self) -> str:
        return f"The knowledge base {str(self.path)!r} ([knowledge] url)"

    def _take(self) -> _Opened | None:
        """Give a connection that nobody uses; not to a file that has been deleted or replaced meanwhile."""
        with self._lock:
            while self._idle:
                opened = self._idle.pop()
                if opened.file == _file_at(self.path):
                    return opened
                opened.connection.close()
        return None

    def _open(self) -> _Opened:
        _prepare(self.path)
        file = _file_at(self.path)
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            self._check(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -65536")
        except BaseException:
            connection.close()
            raise
        return _Opened(connection, file)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Take the file for ours if it is empty; refuse every other that is not."""
        connection.execute("BEGIN")  # so that all three are of one moment
        kind, version, tables = _marks(connection)
        connection.execute("COMMIT")
        if not kind and not tables:
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN EXCLUSIVE")
            try:
                if not _marks(connection)[2]:  # nobody else was quicker
                    for statement in _TABLES.split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            kind, version, _ = _marks(connection)
        if kind != _APPLICATION_ID:
            raise ServiceError(f"{self._what} is another database; name a file that is one, or a new one.")
        if version != _VERSION:
            raise ServiceError(
                f"{self._what} has the format {version}, this program knows {_VERSION}. Add the files to a new one."
            )


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Give application id, version and number of tables."""
    found: list[int] = []
    for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema"):
        with closing(connection.execute(query)) as rows:
            found.append(rows.fetchone()[0])
    return found[0], found[1], found[2]


def _prepare(path: Path) -> None:
    """Make the file and its folder where they are missing; never open one that is there, which would drop locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
