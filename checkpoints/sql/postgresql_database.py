"""Tables in a schema of PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, LiteralString, cast

from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg import AsyncConnection, Error, OperationalError, sql
from psycopg_pool import AsyncConnectionPool

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.tasks import keep_cancellation
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.sql.sql_database import TABLES, Rows, SqlDatabase, Statement
from ragflow_lg.checkpoints.store_url import redact_url

CONNECTIONS = 16
MAX_NAME = 63
"""PostgreSQL cuts longer names."""
CONNECT_S = 10.0
_TIME_LIMITS = "-cidle_in_transaction_session_timeout=15000 -clock_timeout=10000"
"""The server ends the transaction of a process that has vanished, and nobody waits for its locks for ever."""


class PostgresqlDatabase(SqlDatabase):
    """A pool of connections to one schema."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Error, OSError)
    now_ms: ClassVar[str] = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]]) -> None:
        self.pool = pool

    async def read(self, query: str, values: Sequence[Any] = ()) -> Rows:
        """Return the rows of a query."""
        with keep_cancellation():
            async with self.pool.connection() as connection:
                return await _execute(connection, query, values)

    async def commit(self, thread: str, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in a transaction, which waits for others that concern the same thread."""
        with keep_cancellation():
            return await self._commit(thread, statements)

    async def _commit(self, thread: str, statements: Sequence[Statement]) -> Sequence[Rows]:
        async with self.pool.connection() as connection, connection.transaction():
            await _execute(connection, "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (thread,))
            results: list[Rows] = []
            for query, values, check in statements:
                rows = await _execute(connection, query, values)
                if check is not None and (message := check(rows)):
                    raise OperationalError(message)
                results.append(rows)
            return results


async def _execute(connection: AsyncConnection[Any], query: str, values: Sequence[Any]) -> Rows:
    texts = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]
    cursor = await connection.execute(query.replace("?", "%s"), texts)  # pyright: ignore[reportArgumentType] - only ours
    return await cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def open_database(url: str, prefix: str) -> AsyncGenerator[PostgresqlDatabase]:
    """Open the schema of a deployment, creating it if necessary.

    Raises:
        CheckpointError: if the server cannot be reached or refuses.
    """
    schema = _schema_of(prefix)
    options = f"-csearch_path={schema} {_TIME_LIMITS}"
    kwargs = {"autocommit": True, "prepare_threshold": 0, "options": options, "tcp_user_timeout": 10_000}
    check = AsyncConnectionPool.check_connection  # the server may have been restarted
    sizes: Any = {"min_size": 1, "max_size": CONNECTIONS, "timeout": CONNECT_S}
    pool: Any = AsyncConnectionPool(url, kwargs=kwargs, check=check, open=False, **sizes)
    try:
        with _translate_failure(url):
            await pool.open(wait=True, timeout=CONNECT_S)
            async with pool.connection() as connection:
                await _create_tables(connection, schema)
        yield PostgresqlDatabase(pool)
    finally:
        await pool.close()


async def _create_tables(connection: AsyncConnection[Any], schema: str) -> None:
    """Create the tables that do not exist. Only one process at a time does so; the others must not wait in a statement.

    LangGraph's indexes are created when no other statement is running.
    """
    lock: LiteralString = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
    while not await _fetch(connection, lock, schema):  # noqa: ASYNC110 - the event is in another process
        await asyncio.sleep(0.05)
    try:
        await connection.execute("SET lock_timeout = 0")  # an index waits for transactions that are open
        await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        await connection.execute(cast("LiteralString", TABLES.format(bytes="bytea")), prepare=False)
        await AsyncPostgresStore(connection).setup()
    finally:
        await connection.execute("RESET lock_timeout")
        await _fetch(connection, "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", schema)


async def _fetch(connection: AsyncConnection[Any], query: LiteralString, value: str) -> bool:
    row = await (await connection.execute(query, (value,))).fetchone()
    return row is not None and bool(row[0])


async def has_schema(url: str, prefix: str) -> bool:
    """Return whether a database has the schema of a deployment.

    Raises:
        CheckpointError: if the server cannot be reached.
    """
    with _translate_failure(url):
        async with await AsyncConnection.connect(url, connect_timeout=int(CONNECT_S)) as connection:
            return await _fetch(connection, "SELECT 1 FROM pg_namespace WHERE nspname = %s", _schema_of(prefix))


@contextmanager
def _translate_failure(url: str) -> Generator[None]:
    try:
        yield
    except (Error, OSError) as error:
        raise CheckpointError(f"The database at {redact_url(url)} cannot be used: {plain_reason(error)}") from error


def _schema_of(prefix: str) -> str:
    """Return the schema of a deployment. Its name is a plain word, because it stands in the options of connections."""
    if not prefix:
        return "ragflow_lg"
    name = f"ragflow_lg_{prefix.encode().hex()}"
    if len(name) <= MAX_NAME:
        return name
    return f"ragflow_lg_{hashlib.blake2b(prefix.encode(), digest_size=16).hexdigest()}"
