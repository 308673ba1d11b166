"""The store in PostgreSQL: its leases, and how it is opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from psycopg import Error

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.postgresql.postgresql_database import PostgresqlDatabase, open_database
from ragflow_lg.checkpoints.postgresql.postgresql_saver import postgresql_saver
from ragflow_lg.checkpoints.records.lease_owner import Owner, parse_owner
from ragflow_lg.checkpoints.records.leases import LEASE_S, LeaseHolder, StoredLeases
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sql.sql_cancels import SqlCancels
from ragflow_lg.checkpoints.sql.sql_records import SqlRecords, SqlTraces
from ragflow_lg.checkpoints.store import Store

_TAKE = """
INSERT INTO leases
VALUES (%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, %s, now() + %s * interval '1 ms')
ON CONFLICT (thread_id) DO UPDATE SET
    token = greatest(leases.token + 1, excluded.token), owner = excluded.owner, expires = excluded.expires
WHERE leases.owner = '' OR leases.token = %s OR leases.expires < now() RETURNING token
"""


class PostgresqlLeaseTable:
    """Leases that expire according to the server's clock. Tokens are times in microseconds, and only grow."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Error, OSError)

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._rows = database.rows
        self._lease_ms = int(LEASE_S * 1000)

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | LeaseHolder:
        """Lease a session if it is free or the token of its lease is ``dead_token``, and clear older cancellations."""
        thread = thread_of_session(session)
        async with self._database.transaction(None):
            await self._database.lock(thread)
            taken = await self._rows(_TAKE, thread, str(owner), self._lease_ms, dead_token)
            if not taken:
                return await self.find(session) or LeaseHolder(None, 0)
            await self._rows("DELETE FROM cancels WHERE session = %s", hex_session(session))
            return taken[0][0]

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease, or None if the lease has ended or expired."""
        query = "SELECT token, owner FROM leases WHERE thread_id = %s AND owner <> '' AND expires >= now()"
        rows = await self._rows(query, thread_of_session(session))
        return LeaseHolder(parse_owner(rows[0][1]), rows[0][0]) if rows else None

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease."""
        return await self._update(session, token, "expires = now() + %s * interval '1 ms'", self._lease_ms)

    async def free(self, session: str, token: int) -> None:
        """End a lease, in the open transaction if any. Its row keeps the token so that the next token is larger."""
        await self._update(session, token, "owner = %s", "")

    async def forget(self, session: str) -> None:
        """Delete the row of a session that is not leased."""
        await self._rows("DELETE FROM leases WHERE thread_id = %s AND owner = ''", thread_of_session(session))

    async def _update(self, session: str, token: int, assignment: str, value: Any) -> bool:
        query = f"UPDATE leases SET {assignment} WHERE thread_id = %s AND token = %s AND owner <> '' RETURNING 1"
        return bool(await self._rows(query, value, thread_of_session(session), token))


@asynccontextmanager
async def open_postgresql_store(url: str, prefix: str) -> AsyncGenerator[Store]:
    """Open a store in the schema of a deployment, creating the schema if necessary.

    Raises:
        CheckpointError: if the server cannot be reached or refuses.
    """
    async with open_database(url, prefix) as database:
        leases, cancels = StoredLeases(PostgresqlLeaseTable(database)), SqlCancels(database)
        traces, node_logs = SqlTraces(database), SqlTraces(database, "node_logs")
        try:
            yield Store(postgresql_saver(database), leases, SqlRecords(database), cancels, traces, node_logs)
        finally:
            await cancels.aclose()
            await leases.settle()
