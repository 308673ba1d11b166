"""The server's database: opens it by URL and runs transactions."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, cast

from sqlalchemy import URL, Connection, Select, event, func, inspect, make_url, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.text_types import use_keys

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, CursorResult, Executable

    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.server.database.tables import Row

_T = TypeVar("_T")
_Row = TypeVar("_Row", bound="Row")
_Columns = TypeVarTuple("_Columns")


BUSY_TIMEOUT_MS = 10_000
CONNECT_S = 5
"""Timeout for connecting to a database server."""
SILENCE_MS = 10_000
"""How long PostgreSQL may leave sent data unacknowledged."""
POOL_TIMEOUT_S = 120
"""How long requests may wait for a connection. They are served in order."""
_DRIVERS = {
    "sqlite": ("aiosqlite", "aiosqlite"),
    "postgresql": ("psycopg", "ragflow-lg[postgresql]"),
    "postgres": ("psycopg", "ragflow-lg[postgresql]"),
    "mysql": ("asyncmy", "ragflow-lg[mysql]"),
    "mariadb": ("asyncmy", "ragflow-lg[mysql]"),
}
"""For each URL scheme, the driver's module and the package to install."""

_POOL = {"pool_size": 20, "max_overflow": 20, "pool_timeout": POOL_TIMEOUT_S, "pool_recycle": 1800}
"""Connection pool settings for one process. Connections older than half an hour are replaced."""


logger = logging.getLogger(__name__)

_KINDS = "sqlite:///PATH, postgresql://USER:PASSWORD@HOST/NAME, mysql://… or mariadb://…"


class Database:
    """Database transactions. Rows loaded in them remain usable afterwards."""

    def __init__(self, engine: AsyncEngine, keys: KeyRing | None = None) -> None:
        self.keys = keys
        """Encrypt texts in the engine; None if nothing is encrypted."""
        self._engine = engine
        self._sessions = async_sessionmaker(engine, expire_on_commit=False)
        # SQLite allows one writer at a time. It lets others try again at intervals, so that with many of them some
        # never succeed; with this lock, they write in order.
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._writer: AbstractAsyncContextManager[Any] = asyncio.Lock() if self._is_sqlite else nullcontext()

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncSession]:
        """Open a session for reading.

        Raises:
            DatabaseError: If the database fails.
        """
        try:
            async with self._sessions() as session:
                yield session
        except SQLAlchemyError as error:
            raise _to_database_error(error) from error

    async def all(self, statement: Select[_T]) -> list[_T]:
        """Return the first column of all rows; see `reading`."""
        async with self.reading() as db:
            return list(await db.scalars(statement))

    async def first(self, statement: Select[_T]) -> _T | None:
        """Return the first column of the first row; see `reading`."""
        async with self.reading() as db:
            return await db.scalar(statement)

    async def rows(self, statement: Select[*_Columns]) -> list[tuple[*_Columns]]:
        """Return all rows; see `reading`."""
        async with self.reading() as db:
            return list(await db.execute(statement))

    async def page(
        self, statement: Select[_T], order: Sequence[ColumnElement[Any]], page: int, size: int
    ) -> tuple[list[_T], int]:
        """Return the first column of a page of rows, and the number of all rows. ``page`` counts from 1."""
        async with self.reading() as db:
            total = await db.scalar(select(func.count()).select_from(statement.subquery()))
            rows = await db.scalars(statement.order_by(*order).limit(size).offset((page - 1) * size))
            return list(rows), total or 0

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncSession]:
        """Open a session in a transaction, which is rolled back if the block raises.

        Raises:
            DatabaseError: If the database fails.
        """
        try:
            async with self._writer, self._sessions() as session, session.begin():
                if self._is_sqlite:
                    # A transaction that starts with a read fails as soon as another writer commits.
                    await session.execute(text("BEGIN IMMEDIATE"))
                yield session
        except SQLAlchemyError as error:
            raise _to_database_error(error) from error

    async def add(self, *rows: Row) -> None:
        """Store new rows in one transaction; see `writing`."""
        async with self.writing() as db:
            db.add_all(rows)

    async def execute(self, statement: Executable) -> int:
        """Execute one statement in a transaction of its own. Return how many rows it has changed; see `writing`."""
        async with self.writing() as db:
            return cast("CursorResult[Any]", await db.execute(statement)).rowcount


def matching(table: type[Row], /, **values: Any) -> list[ColumnElement[bool]]:
    """Return the conditions that columns of a table have these values, or one of those in a list or a selection."""
    columns: Any = table
    return [
        getattr(columns, name).in_(value) if isinstance(value, list | Select) else getattr(columns, name) == value
        for name, value in values.items()
    ]


class TenantRepository(Generic[_Row]):
    """One tenant's rows of a table. Those of other tenants are invisible."""

    table: type[_Row]

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def add(self, *rows: Row) -> None:
        """Store new rows, which may belong to several tables, in one transaction."""
        for row in rows:
            row.tenant = self._tenant
        await self._database.add(*rows)

    async def get(self, id_: str) -> _Row | None:
        """Return the row with an id, or None."""
        return await self._database.first(self._select(id=id_))

    async def set(self, id_: str, **values: Any) -> None:
        """Change columns of the row with an id."""
        await self._database.execute(update(self.table).where(*self._mine(id=id_)).values(values))

    def _mine(self, table: type[Row] | None = None, /, **values: Any) -> list[ColumnElement[bool]]:
        return matching(table or self.table, tenant=self._tenant, **values)

    def _select(self, **values: Any) -> Select[_Row]:
        return select(self.table).where(*self._mine(**values))


def database_file(url: str) -> Path | None:
    """Return the file that an SQLite URL refers to, or None for a database server.

    Raises:
        DatabaseError: If the URL does not specify a database, or the driver is missing.
    """
    address = _address(url)
    return Path(address.database or "").absolute() if address.get_backend_name() == "sqlite" else None


NEWEST_VERSION = "runs_of_messages"
"""The last of ``migrations/versions``."""

_VERSION_TABLE = "alembic_version"


def _is_newest(connection: Connection) -> bool:
    """Return whether no migration is missing. Asking Alembic would take 0.2 s longer at every start of a server."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return False
    return list(connection.scalars(text(f"SELECT version_num FROM {_VERSION_TABLE}"))) == [NEWEST_VERSION]


async def _migrate(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        if await connection.run_sync(_is_newest):
            return
    from ragflow_lg.server.database.migration import migrate  # it loads Alembic

    async with engine.begin() as connection:
        await connection.run_sync(migrate)


@asynccontextmanager
async def open_database(url: str, keys: KeyRing | None = None) -> AsyncGenerator[Database]:
    """Open the database at a URL, migrate its tables, and close it at the end. ``keys`` encrypt texts in it.

    A missing SQLite file is created. Only its owner can read it.

    Raises:
        DatabaseError: If the URL does not specify a database, the driver is missing, or it cannot be opened.
    """
    address = _address(url)
    try:
        if address.get_backend_name() == "sqlite":
            _prepare(Path(address.database or ""))
        engine = _engine(address)
    except (OSError, SQLAlchemyError) as error:
        raise _opening_error(address, error) from error
    try:
        try:
            await _migrate(engine)
        except (OSError, SQLAlchemyError) as error:
            raise _opening_error(address, error) from error
        use_keys(engine.sync_engine, keys)
        yield Database(engine, keys)
    finally:
        await engine.dispose()


async def probe_database(url: str) -> str:
    """Query the database at a URL, and change nothing. Return its URL without the password.

    Raises:
        DatabaseError: If the URL does not specify a database, the driver is missing, or it does not answer.
    """
    address = _address(url)
    engine = _engine(address)
    try:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
    except (OSError, SQLAlchemyError) as error:
        raise _opening_error(address, error) from error
    finally:
        await engine.dispose()
    return _redact(address)


def _opening_error(address: URL, error: Exception) -> DatabaseError:
    error = getattr(error, "orig", None) or error
    reason = str(getattr(error, "strerror", None) or error).partition("\n")[0].rstrip(".")
    advice = "Start the database, or correct `database` of [server]."
    if address.get_backend_name() == "sqlite":
        advice = "Free some disk space." if "full" in reason else "Correct `database` of [server]."
    return DatabaseError(f"The database {_redact(address)} cannot be used: {reason}. {advice}")


def _engine(address: URL) -> AsyncEngine:
    if address.get_backend_name() == "sqlite":
        engine = create_async_engine(address, pool_timeout=POOL_TIMEOUT_S)
        event.listen(engine.sync_engine, "connect", _configure_sqlite)
        return engine
    limits: dict[str, Any] = {"connect_timeout": CONNECT_S}
    if address.get_driver_name() == "psycopg":
        limits["tcp_user_timeout"] = SILENCE_MS
    if address.get_driver_name() == "asyncmy":
        limits["async_creator_fn"] = _connect_asyncmy
    # A transaction sees what others have since committed, on MySQL just as on PostgreSQL.
    return create_async_engine(
        address, isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=limits, **_POOL
    )


async def _connect_asyncmy(**options: Any) -> Any:
    """Connect to MySQL or MariaDB. The driver's own limit does not include the server's greeting."""
    import asyncmy
    from asyncmy.errors import OperationalError as ConnectError

    driver: Any = asyncmy  # it has no types
    try:
        async with asyncio.timeout(CONNECT_S):
            return await driver.connect(**options)
    except TimeoutError:
        raise ConnectError(f"it did not answer within {CONNECT_S} s") from None


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError:
        raise DatabaseError(f"[server] database is not a database URL; use {_KINDS}.") from None
    scheme = address.drivername.partition("+")[0]
    if scheme not in _DRIVERS:
        raise DatabaseError(f"[server] database: unknown database {scheme!r}; use {_KINDS}.")
    module, package = _DRIVERS[scheme]
    if find_spec(module) is None:
        raise DatabaseError(f"A {scheme}:// database needs a driver: pip install '{package}'.")
    if scheme == "sqlite" and (not address.database or address.database == ":memory:"):
        raise DatabaseError("[server] database does not contain a file name; use sqlite:///PATH.")
    name = "postgresql" if scheme == "postgres" else scheme
    address = address.set(drivername=f"{name}+{module}")
    return address.set(database=str(Path(address.database or "").expanduser())) if scheme == "sqlite" else address


def _prepare(path: Path) -> None:
    """Create the file if it is missing, with access for its owner only."""
    if path.is_dir():
        raise IsADirectoryError("it is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _configure_sqlite(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _redact(address: URL) -> str:
    """Return the URL as it is written in the settings, without the driver and the password."""
    scheme, separator, _ = address.drivername.partition("+")
    return repr((address.set(drivername=scheme) if separator else address).render_as_string(hide_password=True))


def _to_database_error(error: SQLAlchemyError) -> DatabaseError:
    cause: Any = getattr(error, "orig", None)
    if isinstance(error, OperationalError) and hasattr(cause, "diag") and not cause.diag.message_primary:
        # A connection error, not an answer from the server; its message contains addresses.
        logger.error("the database cannot be reached: %s", str(cause).partition("\n")[0])
        return DatabaseError("The database failed: it cannot be reached.")
    return DatabaseError(f"The database failed: {_reason(error)}.")


def _reason(error: SQLAlchemyError) -> str:
    """Return the driver's reason without values, which may be secrets."""
    cause: Any = getattr(error, "orig", None)
    if cause is None:
        return type(error).__name__
    if isinstance(error, DBAPIError) and hasattr(cause, "diag"):  # unlike PostgreSQL's details, this contains no values
        return cause.diag.message_primary or str(cause).partition("\n")[0]
    if cause.args and isinstance(cause.args[0], int):  # MySQL's messages contain the statement
        return f"{type(cause).__name__} {cause.args[0]}"
    return str(cause)
