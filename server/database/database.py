"""Opening the server's database by URL, and its transactions."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.migration import migrate
from ragflow_lg.server.database.sqlite_threads import SqliteThreads

__all__ = ["Database", "database_file", "open_database"]

BUSY_TIMEOUT_MS = 10_000
CONNECT_S = 5
"""How long a server of a database may take to accept a connection."""
SILENCE_MS = 10_000
"""How long PostgreSQL may leave what was sent without a sign that it arrived."""
POOL_TIMEOUT_S = 120
"""How long a rush of requests may wait for a connection; what comes first is served first."""
_DRIVERS = {
    "sqlite": ("aiosqlite", "aiosqlite"),
    "postgresql": ("psycopg", "ragflow-lg[postgresql]"),
    "postgres": ("psycopg", "ragflow-lg[postgresql]"),
    "mysql": ("asyncmy", "ragflow-lg[mysql]"),
    "mariadb": ("asyncmy", "ragflow-lg[mysql]"),
}
"""By the scheme of a URL: the driver, and what to install for it."""

_POOL = {"pool_size": 20, "max_overflow": 20, "pool_timeout": POOL_TIMEOUT_S, "pool_recycle": 1800}
"""Connections of one process to a server; those older than half an hour are made anew."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)

_KINDS = "sqlite:///PATH, postgresql://USER:PASSWORD@HOST/NAME, mysql://… or mariadb://…"


class Database:
    """Gives transactions. Rows that come out of them stay as they are.

    `read` and `write` are the quick ones, for what every turn does: they take Core statements, without the mapper.
    """

    def __init__(self, engine: AsyncEngine, threads: SqliteThreads | None = None) -> None:
        """``threads`` are those of a file of SQLite."""
        self._engine = engine
        self._threads = threads
        self._sessions = async_sessionmaker(engine, expire_on_commit=False)
        self._is_sqlite = engine.dialect.name == "sqlite"

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Let ``work`` look something up; it may be called in another thread.

        Raises:
            DatabaseError: if the database does not answer.
        """
        try:
            if self._threads is not None:
                return await self._threads.read(work)
            async with self._engine.connect() as connection:
                return await connection.run_sync(work)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Let ``work`` write, all that it writes or nothing of it; it may be called in another thread.

        Raises:
            DatabaseError: if the database does not take it.
        """
        try:
            if self._threads is not None:
                return await self._threads.write(work)
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncSession]:
        """Look something up.

        Raises:
            DatabaseError: if the database does not answer.
        """
        try:
            async with self._sessions() as session:
                yield session
        except SQLAlchemyError as error:
            raise _failed(error) from error

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncSession]:
        """Write what is written inside, or nothing of it.

        Raises:
            DatabaseError: if the database does not take it.
        """
        try:
            async with self._sessions() as session, session.begin():
                if self._is_sqlite:
                    # A transaction that began with reading is refused as soon as somebody else has written.
                    await session.execute(text("BEGIN IMMEDIATE"))
                yield session
        except SQLAlchemyError as error:
            raise _failed(error) from error


def database_file(url: str) -> Path | None:
    """Give the file of a URL of SQLite, None for a server.

    Raises:
        DatabaseError: if the URL names no database, or its driver is missing.
    """
    address = _address(url)
    return Path(address.database or "").absolute() if address.get_backend_name() == "sqlite" else None


@asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """Open the database of a URL, bring its tables up to date, and close it again.

    A file of SQLite is made if it is missing, for its owner only.

    Raises:
        DatabaseError: if the URL names none, its driver is missing, or it cannot be opened.
    """
    address = _address(url)
    try:
        if address.get_backend_name() == "sqlite":
            _prepare(Path(address.database or ""))
        engine = _engine(address)
    except (OSError, SQLAlchemyError) as error:
        raise DatabaseError(f"The database {_shown(address)} cannot be opened: {error}.") from error
    try:
        try:
            async with engine.begin() as connection:
                await connection.run_sync(migrate)
        except (OSError, SQLAlchemyError) as error:
            reason = getattr(error, "orig", None) or error
            raise DatabaseError(f"The database {_shown(address)} cannot be used: {reason}.") from error
        threads = _threads(address)
        try:
            yield Database(engine, threads)
        finally:
            if threads is not None:
                await threads.close()
    finally:
        await engine.dispose()


def _engine(address: URL) -> AsyncEngine:
    if address.get_backend_name() == "sqlite":
        engine = create_async_engine(address, pool_timeout=POOL_TIMEOUT_S)
        event.listen(engine.sync_engine, "connect", _set_up)
        return engine
    limits: dict[str, Any] = {"connect_timeout": CONNECT_S}
    if address.get_driver_name() == "psycopg":
        limits["tcp_user_timeout"] = SILENCE_MS
    # A turn sees what others have written meanwhile, in MySQL as in PostgreSQL.
    return create_async_engine(
        address, isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=limits, **_POOL
    )


def _threads(address: URL) -> SqliteThreads | None:
    if address.get_backend_name() != "sqlite":
        return None
    engine = create_engine(address.set(drivername="sqlite+pysqlite"), pool_timeout=POOL_TIMEOUT_S)
    event.listen(engine, "connect", _set_up)
    return SqliteThreads(engine)


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError:
        raise DatabaseError(f"[server] database is no URL of a database; give {_KINDS}.") from None
    scheme = address.drivername.partition("+")[0]
    if scheme not in _DRIVERS:
        raise DatabaseError(f"[server] database: there is no database {scheme!r}; give {_KINDS}.")
    module, package = _DRIVERS[scheme]
    if find_spec(module) is None:
        raise DatabaseError(f"A database {scheme}:// needs a driver: pip install '{package}'.")
    if scheme == "sqlite" and (not address.database or address.database == ":memory:"):
        raise DatabaseError("[server] database names no file; write sqlite:///PATH.")
    name = "postgresql" if scheme == "postgres" else scheme
    address = address.set(drivername=f"{name}+{module}")
    return address.set(database=str(Path(address.database or "").expanduser())) if scheme == "sqlite" else address


def _prepare(path: Path) -> None:
    """Make a file that only its owner can read, should there be none."""
    if path.is_dir():
        raise IsADirectoryError("it is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _set_up(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _shown(address: URL) -> str:
    return repr(address.render_as_string(hide_password=True))


def _failed(error: SQLAlchemyError) -> DatabaseError:
    cause: Any = getattr(error, "orig", None)
    if isinstance(error, OperationalError) and hasattr(cause, "diag") and not cause.diag.message_primary:
        # Not a word of the server, but of the way to it; its text names addresses.
        logger.error("the database cannot be reached: %s", str(cause).partition("\n")[0])
        return DatabaseError("The database failed: it cannot be reached.")
    return DatabaseError(f"The database failed: {_reason(error)}.")


def _reason(error: SQLAlchemyError) -> str:
    """Say why in words of the driver that hold no values: these may be secrets."""
    cause: Any = getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    if isinstance(error, DBAPIError) and hasattr(cause, "diag"):  # PostgreSQL's details show values, this does not
        return cause.diag.message_primary or str(cause).partition("\n")[0]
    if cause.args and isinstance(cause.args[0], int):  # MySQL's texts show the statement
        return f"{type(cause).__name__} {cause.args[0]}"
    return str(cause)
