"""The SQLite file of the embedded knowledge base. Only its owner may read it; any thread may use it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.base.errors import ServiceError

BUSY_TIMEOUT_S = 30.0
_APPLICATION_ID = 0x72666B62
_VERSION = 2
_TABLES = """
CREATE TABLE datasets (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    embedding_model TEXT NOT NULL, dims INTEGER NOT NULL, chunk_tokens INTEGER NOT NULL,
    overlap_tokens INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 0, vector_model TEXT NOT NULL DEFAULT ''
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


class _OpenFile(NamedTuple):
    """A connection, and the device and inode of its file."""

    connection: sqlite3.Connection
    file: tuple[int, int] | None


class KnowledgeDatabase:
    """Connections to the file. The first write creates it; without the file there are no datasets."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._idle: list[_OpenFile] = []
        self._lock = threading.Lock()

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # opening the file will report the reason
            return True
        return True

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Open a read transaction.

        Raises:
            ServiceError: if the file cannot be opened, is damaged or is not a knowledge base.
        """
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Open a write transaction, which is committed at the end and rolled back after an exception.

        Raises:
            ServiceError: if the file cannot be created, opened or written.
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
        """Close all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for open_file in idle:
            open_file.connection.close()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        try:
            try:
                open_file = self._take() or self._open()
            except OSError as error:  # not for exceptions from the caller's code
                raise ServiceError(f"{self._what} cannot be used: {error.strerror or error}.") from error
            try:
                yield open_file.connection
            except BaseException:
                open_file.connection.close()
                raise
            with self._lock:
                self._idle.append(open_file)
        except sqlite3.OperationalError as error:
            busy = "locked" in str(error)
            why = "another process is writing to it; try again" if busy else str(error)
            raise ServiceError(f"{self._what} cannot be used: {why}.", is_retryable=busy) from error
        except UnicodeError as error:  # from names and messages in a damaged file
            raise ServiceError(f"{self._what} cannot be used: it is damaged ({error}).") from error
        except sqlite3.Error as error:
            raise ServiceError(f"{self._what} cannot be used: {error}.") from error

    @property
    def _what(self) -> str:
        return f"The knowledge base {str(self.path)!r} ([knowledge] url)"

    def _take(self) -> _OpenFile | None:
        """Return an idle connection, unless its file has been deleted or replaced."""
        with self._lock:
            while self._idle:
                open_file = self._idle.pop()
                if open_file.file == _file_at(self.path):
                    return open_file
                open_file.connection.close()
        return None

    def _open(self) -> _OpenFile:
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
        return _OpenFile(connection, file)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the tables in an empty file, and raise for any other file that is not a knowledge base."""
        connection.execute("BEGIN")  # read all three values in one transaction
        kind, version, tables = _file_info(connection)
        connection.execute("COMMIT")
        if not kind and not tables:
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN EXCLUSIVE")
            try:
                if not _file_info(connection)[2]:  # another process may have created them meanwhile
                    for statement in _TABLES.split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            kind, version, _ = _file_info(connection)
        if kind != _APPLICATION_ID:
            raise ServiceError(f"{self._what} is a different kind of database. Specify a knowledge base or a new file.")
        if version != _VERSION:
            raise ServiceError(
                f"{self._what} has the format {version}, but this version supports {_VERSION}. Add the files to a new "
                "knowledge base."
            )


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _file_info(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the application id, the format version and the number of tables."""
    values: list[int] = []
    for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema"):
        with closing(connection.execute(query)) as rows:
            values.append(rows.fetchone()[0])
    return values[0], values[1], values[2]


def _prepare(path: Path) -> None:
    """Create the file and its folder if they are missing. Never open an existing file: closing it would drop locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
