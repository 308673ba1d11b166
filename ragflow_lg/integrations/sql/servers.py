"""Connections to database servers, on which statements are limited in time, and read-only unless they may write."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ragflow_lg.integrations.sql.database_kinds import CONNECT_S, DatabaseKind, set_up_statements
from ragflow_lg.integrations.sql.rows import RowLimits, read_rows
from ragflow_lg.integrations.sql.statements import Statement
from ragflow_lg.services.databases import StatementResult

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

T = TypeVar("T")

GRACE_S = 2.0
"""How much longer we wait than the server, whose own limit leaves the connection usable."""
TOO_LARGE = "this row is too large"
_ROW_CHECK = (
    "SELECT * FROM ({query}) AS ragflow_lg_row WHERE "
    "CAST(CASE WHEN pg_column_size(ragflow_lg_row) > {limit} THEN '{mark}' ELSE '1' END AS int) = 1"
)
"""A query that PostgreSQL ends before it sends a row above the limit: the driver would read the whole row."""
_SET_OPTION = 0x1B
_MULTI_STATEMENTS_OFF = struct.pack("<H", 1)


class Server(Struct, frozen=True):
    """A database server, and an account for it."""

    kind: DatabaseKind
    url: URL
    arguments: Mapping[str, Any]
    """The driver's arguments that are not in the URL."""
    timeout_s: float
    """Time limit for a statement."""
    writes: bool


class ServerConnection:
    """A connection. A driver without asyncio works in a thread, and connects again for each statement."""

    def __init__(self, server: Server, engine: Any, connection: Any) -> None:
        self._server = server
        self._engine = engine
        self._connection = connection

    @property
    def is_usable(self) -> bool:
        """Whether the connection is neither broken nor left with rows that nobody reads."""
        return self._connection is None or not self._connection.invalidated

    async def read(self, statement: Statement, limits: RowLimits) -> StatementResult:
        """Run a statement. One that takes too long is abandoned, and psycopg stops it in the server.

        Raises:
            TimeoutError: if it takes too long.
        """
        async with asyncio.timeout(self._server.timeout_s + GRACE_S):
            return await self._call(lambda connection: _read(connection, self._server, statement, limits))

    async def _call(self, work: Callable[[Connection], T]) -> T:
        if self._connection is not None:
            return await self._connection.run_sync(work)
        return await asyncio.to_thread(_work_in_thread, self._engine, work)

    async def set_up(self) -> None:
        """Limit the time of the statements that follow."""
        await self._call(lambda connection: _set_up(connection, self._server))


@asynccontextmanager
async def open_connection(server: Server) -> AsyncGenerator[ServerConnection]:
    """Yield a connection. Cancelling the block drops it.

    Raises:
        Exception: a driver's, or SQLAlchemy's, if the server cannot be reached.
    """
    from sqlalchemy import NullPool, create_engine
    from sqlalchemy.ext.asyncio import create_async_engine

    create: Any = create_async_engine if server.kind.is_async else create_engine
    arguments = {**server.kind.connect, **server.arguments}
    engine = create(server.url, connect_args=arguments, poolclass=NullPool, hide_parameters=True)
    if not server.kind.is_async:
        connection = ServerConnection(server, engine, None)
        await connection.set_up()
        yield connection
        return
    seconds = server.timeout_s + CONNECT_S
    try:
        async with asyncio.timeout(seconds):  # asyncmy would wait for a greeting without end
            opened = await engine.connect()
    except TimeoutError:
        raise TimeoutError(f"It did not answer within {seconds:g} s.") from None
    try:
        connection = ServerConnection(server, engine, opened)
        await connection.set_up()
        yield connection
    finally:
        with suppress(Exception):  # it is of no more use
            async with asyncio.timeout(CONNECT_S):
                await opened.close()


def _work_in_thread(engine: Any, work: Callable[[Connection], T]) -> T:
    with engine.connect() as connection:
        return work(connection)


def _set_up(connection: Connection, server: Server) -> None:
    from sqlalchemy.exc import DBAPIError

    for alternatives in set_up_statements(server.kind, server.timeout_s):
        for statement in alternatives:
            try:
                connection.exec_driver_sql(statement)
            except DBAPIError:
                if statement == alternatives[-1]:
                    raise
                continue
            break
    connection.commit()
    if server.kind.dialect == "mysql":
        driver: Any = connection.connection.dbapi_connection
        driver.run_async(_turn_off_multi_statements)


async def _turn_off_multi_statements(connection: Any) -> None:
    """Make a MySQL server refuse texts of several statements, which asyncmy always asks for."""
    await connection._execute_command(_SET_OPTION, _MULTI_STATEMENTS_OFF)
    await connection.read_packet()


def _read(connection: Connection, server: Server, statement: Statement, limits: RowLimits) -> StatementResult:
    """Run a statement in a transaction of its own, which is committed only if it may write."""
    kind, text = server.kind, statement.sent
    options: dict[str, Any] = {"stream_results": kind.is_async and statement.is_query}
    if not statement.values:
        options["no_parameters"] = True  # some drivers would look for marks
    if statement.is_query and kind.dialect == "postgres":
        text = _ROW_CHECK.format(query=text, limit=limits.bytes, mark=TOO_LARGE)
    with connection.begin() as transaction:
        for command in () if server.writes else kind.begin_to_read:
            connection.exec_driver_sql(command)
        found = connection.exec_driver_sql(text, tuple(statement.values) or None, execution_options=options)
        titles = list(found.keys()) if found.returns_rows else None
        result = read_rows(statement.text, titles, found, limits, kind.chunk_rows)
        if server.writes and not result.error and (statement.refusal or not result.has_more):
            transaction.commit()  # a change is complete before its rows are read
        if result.has_more or result.error:
            connection.invalidate()  # closing the result may read all of its rows
        if transaction.is_active:
            transaction.rollback()
    return result
