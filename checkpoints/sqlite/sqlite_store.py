"""The store in an SQLite file: its leases, cancellation, and how it is opened."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.records.lease_owner import Owner, parse_owner, this_process
from ragflow_lg.checkpoints.records.leases import LEASE_S, LeaseHolder, StoredLeases
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sql.sql_cancels import SqlCancels
from ragflow_lg.checkpoints.sql.sql_records import SqlRecords, SqlTraces
from ragflow_lg.checkpoints.sqlite.sqlite_file import FILE_GONE, SqliteFile, open_sqlite
from ragflow_lg.checkpoints.sqlite.sqlite_saver import sqlite_saver
from ragflow_lg.checkpoints.sqlite.sqlite_transactions import SqliteTables, join_transaction
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.services.services import Clock

_IS_VALID = (
    "typeof(owner) = 'text' AND typeof(token) = 'integer' AND token < 1 << 62"
    " AND typeof(expires_ms) = 'integer' AND typeof(expires_uptime_ms) = 'integer'"
)
"""Condition for an undamaged row in ``leases``. A damaged row does not block its session."""


class SqliteLeaseTable:
    """Leases in the ``leases`` table. Tokens are times in microseconds, so that a deleted row repeats none.

    A lease that belongs to this machine expires according to the machine's uptime, which clock changes do not affect.
    A lease that belongs to another machine expires according to the wall clock.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    def __init__(self, file: SqliteFile, clock: Clock) -> None:
        self._file = file
        self._rows = file.rows
        self._clock = clock
        self._lease_ms = int(LEASE_S * 1000)

    def take(self, session: str, owner: Owner, dead_token: int) -> asyncio.Future[int | LeaseHolder]:
        """Lease a session if it is free, its lease has expired, or the token of its lease is ``dead_token``.

        A request to cancel that is older than the lease is cleared.
        """
        thread, (now, uptime), here = thread_of_session(session), self._times(), f"{owner.machine}|"
        until = (now + self._lease_ms, uptime + self._lease_ms)
        lease = (
            "INSERT INTO leases VALUES (?, ?, ?, ?, ?) ON CONFLICT (thread_id) DO UPDATE SET"
            f" token = CASE WHEN {_IS_VALID} THEN max(token + 1, excluded.token) ELSE excluded.token END,"
            " owner = excluded.owner, expires_ms = excluded.expires_ms,"
            " expires_uptime_ms = excluded.expires_uptime_ms"
            f" WHERE NOT ({_IS_VALID}) OR owner = '' OR token = ? OR CASE WHEN substr(owner, 1, ?) = ?"
            " THEN expires_uptime_ms < ? ELSE expires_ms < ? END RETURNING token",
            (thread, now * 1000, str(owner), *until, dead_token, len(here), here, uptime, now),
        )

        def take() -> int | LeaseHolder:
            execute = self._file.connection.execute
            if granted := execute(*lease).fetchall():
                execute("DELETE FROM cancels WHERE session = ?", (hex_session(session),))
                return int(granted[0][0])
            row = execute("SELECT token, owner FROM leases WHERE thread_id = ?", (thread,)).fetchone()
            return LeaseHolder(parse_owner(row[1]), int(row[0])) if row else LeaseHolder(None, 0)

        return self._file.begin(take)

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease, or None if the lease has ended or expired."""
        query = f"SELECT token, owner, expires_ms, expires_uptime_ms FROM leases WHERE thread_id = ? AND {_IS_VALID}"
        rows = await self._rows(query, (thread_of_session(session),))
        if not rows or not rows[0][1]:
            return None
        row = rows[0]
        (now, uptime), is_here = self._times(), row[1].startswith(f"{this_process().machine}|")
        has_expired = row[3] < uptime if is_here else row[2] < now
        return None if has_expired else LeaseHolder(parse_owner(row[1]), int(row[0]))

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease."""
        until = [time + self._lease_ms for time in self._times()]
        try:
            return bool(await self._rows(*_update(session, token, "expires_ms = ?, expires_uptime_ms = ?", *until)))
        except sqlite3.OperationalError as error:
            if FILE_GONE in str(error):
                return False  # no later attempt can succeed
            raise

    async def free(self, session: str, token: int) -> None:
        """End a lease, in the open transaction if any. Its row keeps the token so that the next token is larger."""
        update = _update(session, token, "owner = ?", "")
        if not join_transaction(self._file, lambda connection: connection.execute(*update)):
            await self._rows(*update)

    async def forget(self, session: str) -> None:
        """Delete the row of a session that is not leased."""
        await self._rows("DELETE FROM leases WHERE thread_id = ? AND owner = ''", (thread_of_session(session),))

    def _times(self) -> tuple[int, int]:
        return int(self._clock.now() * 1000), int(self._clock.monotonic() * 1000)


def _update(session: str, token: int, assignments: str, *values: Any) -> tuple[str, tuple[Any, ...]]:
    query = f"UPDATE leases SET {assignments} WHERE thread_id = ? AND token = ? AND owner <> '' RETURNING 1"
    return query, (*values, thread_of_session(session), token)


@asynccontextmanager
async def open_sqlite_store(path: Path, clock: Clock) -> AsyncGenerator[Store]:
    """Open a store in a file, creating the file if necessary.

    Raises:
        CheckpointError: if the file cannot be opened or is not a session store.
    """
    async with AsyncExitStack() as stack:
        saver_file = await stack.enter_async_context(open_sqlite(path))
        # Leases and flags must not wait for the saver. They need not be durable: a power loss also stops their owners.
        record_file = await stack.enter_async_context(open_sqlite(path, survives_power_loss=False))
        saver = await sqlite_saver(saver_file)
        leases = StoredLeases(SqliteLeaseTable(record_file, clock))
        stack.push_async_callback(leases.settle)
        tables = SqliteTables(record_file)
        cancels = await stack.enter_async_context(aclosing(SqlCancels(tables)))
        traces, node_logs = SqlTraces(tables), SqlTraces(tables, "node_logs")
        yield Store(saver, leases, SqlRecords(tables), cancels, traces, node_logs)
