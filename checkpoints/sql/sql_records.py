"""Run records, agent traces, leases and requests to cancel in the tables of a database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict, fields

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.records.leases import LEASE_S, LeaseHolder, Owner, parse_owner
from ragflow_lg.checkpoints.records.run_records import MAX_TRACES, LocalCancels, RecordTexts, check_record, hex_session
from ragflow_lg.checkpoints.sql.sql_database import SqlDatabase, Statement, marks
from ragflow_lg.services.sessions import RunRecord, Trace

POLL_S = 0.2
MAX_PAGE = 512

_COLUMNS = tuple(field.name for field in fields(RunRecord))
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)
_PUT = (
    f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES {marks(_COLUMNS)} ON CONFLICT (run_id) DO UPDATE SET {_UPDATES}"
)
_PAGE = "WHERE session = ? AND (started_ms, run_id) < (?, ?) ORDER BY started_ms DESC, run_id DESC LIMIT ?"

logger = logging.getLogger(__name__)


class SqlRecords:
    """Run records in the ``runs`` table. All methods raise CheckpointError if the database fails."""

    def __init__(self, database: SqlDatabase, texts: RecordTexts) -> None:
        self._database = database
        self._texts = texts

    async def put(self, record: RunRecord) -> None:
        """Store a record in the open transaction, or by itself."""
        values = asdict(self._texts.seal(record))
        row = [int(value) if isinstance(value, bool) else value for value in values.values()]
        await self._write(record.session, Statement(_PUT, row))

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record."""
        for row in await self._find("WHERE run_id = ?", run_id):
            return self._read(row)
        return None

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Yield a session's records, newest first. They are read in pages that grow: most callers need only one."""
        place, size = (1 << 62, ""), 1
        while True:
            rows = await self._find(_PAGE, hex_session(session), *place, size)
            for row in rows:
                yield self._read(row)
            if len(rows) < size:
                return
            place, size = (rows[-1]["started_ms"], rows[-1]["run_id"]), min(size * 8, MAX_PAGE)

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Yield the newest record of every session, newest first. Damaged records are left out."""
        of_session = "SELECT run_id FROM runs AS other WHERE other.session = runs.session"
        newest = f"{of_session} ORDER BY started_ms DESC, run_id DESC LIMIT 1"
        for row in await self._find(f"WHERE run_id = ({newest}) ORDER BY started_ms DESC, run_id DESC"):
            try:
                yield self._read(row)
            except DamagedSessionError as error:
                logger.warning("A session is left out of a listing: %s", error)

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records, with their traces."""
        for start in range(0, len(run_ids), MAX_PAGE):
            page = run_ids[start : start + MAX_PAGE]
            where = f"WHERE session = ? AND run_id IN {marks(page)}"
            values = (hex_session(session), *page)
            deletions = [Statement(f"DELETE FROM {table} {where}", values) for table in ("traces", "runs")]
            of_runs = f"replace(thread_id, '-', '') IN {marks(page)}"
            flags = Statement(f"DELETE FROM leases WHERE is_cancelled <> 0 AND {of_runs}", tuple(page))
            await self._write(session, *deletions, flags)

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        name = (hex_session(session),)
        of_runs = "replace(thread_id, '-', '') IN (SELECT run_id FROM runs WHERE session = ?)"
        cancels = f"DELETE FROM leases WHERE is_cancelled <> 0 AND {of_runs}"
        await self._write(session, Statement(cancels, name), Statement("DELETE FROM runs WHERE session = ?", name))

    async def _write(self, session: str, *statements: Statement) -> None:
        with translate_errors(*self._database.errors):
            await self._database.write(thread_of_session(session), *statements)

    async def _find(self, where: str, *values: Any) -> list[dict[str, Any]]:
        with translate_errors(*self._database.errors):
            rows = await self._database.read(f"SELECT {', '.join(_COLUMNS)} FROM runs {where}", values)
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    def _read(self, row: dict[str, Any]) -> RunRecord:
        return self._texts.open(check_record(row))


class SqlTraces:
    """Traces of one kind in the ``traces`` table. All methods raise CheckpointError if the database fails."""

    def __init__(self, database: SqlDatabase, texts: RecordTexts, kind: str) -> None:
        self._database = database
        self._texts = texts
        self._kind = kind

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace and delete the traces of the session's oldest runs, in the open transaction if any."""
        place = (hex_session(record.session), self._kind)
        where = "WHERE session = ? AND kind = ?"
        row = (record.run_id, *reversed(place), record.started_ms)
        text = self._texts.write_trace(record.run_id, self._kind, trace)
        conflict = "ON CONFLICT (run_id, kind) DO UPDATE SET trace = excluded.trace"
        newest = f"SELECT run_id FROM traces {where} ORDER BY started_ms DESC, run_id DESC LIMIT {MAX_TRACES}"
        with translate_errors(*self._database.errors):
            await self._database.write(
                thread_of_session(record.session),
                Statement(f"INSERT INTO traces VALUES (?, ?, ?, ?, ?) {conflict}", (*row, text)),
                Statement(f"DELETE FROM traces {where} AND run_id NOT IN ({newest})", (*place, *place)),
            )

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace."""
        query = "SELECT trace FROM traces WHERE run_id = ? AND kind = ?"
        with translate_errors(*self._database.errors):
            rows = await self._database.read(query, (run_id, self._kind))
        return self._texts.read_trace(run_id, self._kind, rows[0][0]) if rows else None

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces."""
        deletion = Statement("DELETE FROM traces WHERE session = ? AND kind = ?", (hex_session(session), self._kind))
        with translate_errors(*self._database.errors):
            await self._database.write(thread_of_session(session), deletion)


class SqlCancels(LocalCancels):
    """Flags of sessions and runs in the ``leases`` table. A single poll every 0.2 s serves all in this process."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__(self._poll)
        self._database = database

    async def request(self, session: str) -> None:
        """Set the flag; a runner in this process stops immediately."""
        flag = "INSERT INTO leases VALUES (?, 0, '', 0, 1) ON CONFLICT (thread_id) DO UPDATE SET is_cancelled = 1"
        with translate_errors(*self._database.errors):
            await self._database.write(thread_of_session(session), Statement(flag, (thread_of_session(session),)))
        self.cancel(session)

    async def is_requested(self, session: str) -> bool:
        """Return whether the flag is set."""
        return bool(await self._flagged([session]))

    async def _poll(self) -> None:
        while self._watches:
            await asyncio.sleep(POLL_S)
            with suppress(CheckpointError):  # the next poll retries
                for session in await self._flagged([*self._watches]):
                    self.cancel(session)

    async def _flagged(self, sessions: Sequence[str]) -> list[str]:
        if not sessions:
            return []
        threads = [thread_of_session(session) for session in sessions]
        query = f"SELECT thread_id FROM leases WHERE is_cancelled <> 0 AND thread_id IN {marks(threads)}"
        with translate_errors(*self._database.errors):
            rows = await self._database.read(query, threads)
        return [session_of_thread(row[0]) for row in rows]


class SqlLeaseTable:
    """Leases that expire according to the clock of the database. Tokens are times in microseconds, and only grow.

    A lease has a flag with requests to cancel, which a new lease clears.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self.lease_ms = int(LEASE_S * 1000)
        self.errors = database.errors
        now = database.now_ms
        self._take = (
            f"INSERT INTO leases VALUES (?, {now} * 1000, ?, {now} + ?, 0) ON CONFLICT (thread_id) DO UPDATE SET"
            " token = CASE WHEN leases.token < excluded.token THEN excluded.token ELSE leases.token + 1 END,"
            " owner = excluded.owner, expires_ms = excluded.expires_ms, is_cancelled = 0"
            f" WHERE leases.owner = '' OR leases.token = ? OR leases.expires_ms < {now} RETURNING token"
        )
        self._is_held = f"SELECT token, owner FROM leases WHERE thread_id = ? AND owner <> '' AND expires_ms >= {now}"
        self._renew = f"SET expires_ms = {now} + ?"

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | LeaseHolder:
        """Lease a session if it is free, its lease has expired, or the token of its lease is ``dead_token``."""
        thread = thread_of_session(session)
        taking = Statement(self._take, (thread, str(owner), self.lease_ms, dead_token))
        taken, held = await self._database.commit(thread, [taking, Statement(self._is_held, (thread,))])
        return int(taken[0][0]) if taken else _holder(held) or LeaseHolder(None, 0)

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease, or None if the lease has ended or expired."""
        return _holder(await self._database.read(self._is_held, (thread_of_session(session),)))

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease."""
        thread, update = thread_of_session(session), _update(self._renew, session, token, self.lease_ms)
        (updated,) = await self._database.commit(thread, [update])
        return bool(updated)

    async def free(self, session: str, token: int) -> None:
        """End a lease, in the open transaction if any. Its row keeps the token so that the next token is larger."""
        await self._database.write(thread_of_session(session), _update("SET owner = ?", session, token, ""))

    async def forget(self, session: str) -> None:
        """Delete the row of a session that is not leased."""
        deletion = "DELETE FROM leases WHERE thread_id = ? AND owner = ''"
        await self._database.write(thread_of_session(session), Statement(deletion, (thread_of_session(session),)))


def _update(assignment: str, session: str, token: int, value: Any) -> Statement:
    query = f"UPDATE leases {assignment} WHERE thread_id = ? AND token = ? AND owner <> '' RETURNING 1"
    return Statement(query, (value, thread_of_session(session), token))


def _holder(rows: Sequence[Sequence[Any]]) -> LeaseHolder | None:
    return LeaseHolder(parse_owner(str(rows[0][1])), int(rows[0][0])) if rows else None
