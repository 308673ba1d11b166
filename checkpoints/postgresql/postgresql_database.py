"""Connections to PostgreSQL, and transactions with preconditions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, LiteralString

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg import AsyncConnection, Error, OperationalError, sql
from psycopg_pool import AsyncConnectionPool

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.failures import plain_reason, translate_errors
from ragflow_lg.checkpoints.steps.preconditions import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    Precondition,
)
from ragflow_lg.checkpoints.store_url import redact_url

CONNECTIONS = 16
MAX_NAME = 63
"""PostgreSQL cuts longer names."""
CONNECT_S = 10.0
_TIME_LIMITS = "-cidle_in_transaction_session_timeout=15000 -clock_timeout=10000"
"""The server ends the transaction of a process that has vanished, and nobody waits for its locks for ever."""

_TABLES = """
CREATE TABLE IF NOT EXISTS session_parts (
    thread_id text NOT NULL, name text NOT NULL, content bytea NOT NULL, PRIMARY KEY (thread_id, name)
);
CREATE TABLE IF NOT EXISTS leases (
    thread_id text PRIMARY KEY, token bigint NOT NULL, owner text NOT NULL, expires timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS runs (
    run_id text PRIMARY KEY, session text NOT NULL, name text NOT NULL, canvas_id text NOT NULL,
    canvas_hash text NOT NULL, tenant text NOT NULL, checkpoint text NOT NULL, parent_run text NOT NULL,
    status text NOT NULL, reason text NOT NULL, is_cancel_requested boolean NOT NULL,
    started_ms bigint NOT NULL, updated_ms bigint NOT NULL, ended_ms bigint NOT NULL, model text NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_of_session ON runs (session, started_ms);
CREATE TABLE IF NOT EXISTS traces (
    run_id text PRIMARY KEY, session text NOT NULL, started_ms bigint NOT NULL, trace text NOT NULL
);
CREATE TABLE IF NOT EXISTS node_logs (LIKE traces INCLUDING ALL);
CREATE TABLE IF NOT EXISTS cancels (session text PRIMARY KEY);
"""

_current: ContextVar[AsyncConnection[Any] | None] = ContextVar("connection", default=None)
"""The connection of the open transaction."""


class PostgresqlDatabase:
    """A pool of connections to one schema."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]]) -> None:
        self.pool = pool

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Yield the connection of the open transaction, or one that commits each statement."""
        if (current := _current.get()) is not None:
            yield current
            return
        async with self.pool.connection() as connection:
            yield connection

    async def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement, in the open transaction if any, and return its rows."""
        async with self.connection() as connection:
            cursor = await connection.execute(query, values)  # pyright: ignore[reportArgumentType] - only ours
            return await cursor.fetchall() if cursor.description else []

    async def read(self, query: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Return the rows of a query of `ragflow_lg.checkpoints.sql`."""
        with translate_errors(Error):
            return await self.rows(query.replace("?", "%s"), *values)

    async def write(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Execute statements of `ragflow_lg.checkpoints.sql`, in the open transaction if any."""
        with translate_errors(Error):
            for query, values in statements:
                texts = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]
                await self.rows(query.replace("?", "%s"), *texts)

    @asynccontextmanager
    async def transaction(self, precondition: Precondition | None) -> AsyncGenerator[None]:
        """Execute what the block does in one transaction, if the precondition holds."""
        async with self.pool.connection() as connection, connection.transaction():
            mark = _current.set(connection)
            try:
                if precondition is not None:
                    await self._check(precondition)
                yield
            finally:
                _current.reset(mark)

    async def lock(self, thread: str) -> None:
        """Lock a session until the open transaction ends. Wait for other transactions that have locked it."""
        await self.rows("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", thread)

    async def _check(self, precondition: Precondition) -> None:
        thread, blobs = precondition.thread, list(precondition.blobs)
        await self.lock(thread)
        leases = await self.rows("SELECT token FROM leases WHERE thread_id = %s AND owner <> ''", thread)
        token = leases[0][0] if leases else NO_LEASE
        if token != precondition.token:
            raise OperationalError(LEASE_MISSING if token == NO_LEASE else LEASE_TAKEN)
        find = "SELECT 1 FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
        if precondition.checkpoint and not await self.rows(find, *precondition.checkpoint):
            raise OperationalError(CHECKPOINT_MISSING)
        count = "SELECT count(*) FROM session_parts WHERE thread_id = %s AND name = ANY(%s)"
        if blobs and await self.rows(count, thread, blobs) != [(len(blobs),)]:
            raise OperationalError(BLOB_MISSING)


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
        await connection.execute(_TABLES, prepare=False)
        await AsyncPostgresSaver(connection).setup()
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
