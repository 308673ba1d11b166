"""Run records and agent traces in SQLite."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from msgspec.structs import asdict, fields

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.records.run_records import (
    MAX_TRACES,
    hex_session,
    normalize_record,
    parse_trace,
    read_record,
    write_trace,
)
from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile
from ragflow_lg.checkpoints.sqlite.sqlite_transactions import join_transaction
from ragflow_lg.services.sessions import RunRecord, Trace

_COLUMNS = tuple(field.name for field in fields(RunRecord))
_PUT = f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_PAGE = "WHERE session = ? AND (started_ms, run_id) < (?, ?) ORDER BY started_ms DESC, run_id DESC LIMIT ?"
MAX_PAGE = 512
_DELETE = "DELETE FROM {table} WHERE session = ? AND run_id IN (SELECT value FROM json_each(?))"

logger = logging.getLogger(__name__)


class SqliteRecords:
    """Run records in the ``runs`` table."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._rows = file.rows

    async def put(self, record: RunRecord) -> None:
        """Store a record in the open transaction, or by itself."""
        values = list(asdict(normalize_record(record)).values())
        if not join_transaction(self._file, lambda connection: connection.execute(_PUT, values)):
            with translate_errors(sqlite3.Error):
                await self._rows(_PUT, values)

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record."""
        async for record in self._select("WHERE run_id = ?", run_id):
            return record
        return None

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Yield a session's records, newest first. They are read in pages that grow: most callers need only one."""
        place, size = (1 << 62, ""), 1
        while True:
            count = 0
            async for record in self._select(_PAGE, hex_session(session), *place, size):
                yield record
                place, count = (record.started_ms, record.run_id), count + 1
            if count < size:
                return
            size = min(size * 8, MAX_PAGE)

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Yield the newest record of every session, newest first. Damaged records are left out."""
        of_session = "SELECT run_id FROM runs AS other WHERE other.session = runs.session"
        newest = f"{of_session} ORDER BY started_ms DESC, run_id DESC LIMIT 1"
        for row in await self._find(f"WHERE run_id = ({newest}) ORDER BY started_ms DESC, run_id DESC"):
            try:
                yield read_record(row)
            except DamagedSessionError as error:
                logger.warning("A session is left out of a listing: %s", error)

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records, with their traces."""
        values = (hex_session(session), json.dumps(list(run_ids)))
        for table in ("traces", "node_logs", "runs"):
            with translate_errors(sqlite3.Error):
                await self._rows(_DELETE.format(table=table), values)

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        with translate_errors(sqlite3.Error):
            await self._rows("DELETE FROM runs WHERE session = ?", (hex_session(session),))

    async def _select(self, where: str, *values: Any) -> AsyncIterator[RunRecord]:
        for row in await self._find(where, *values):
            yield read_record(row)

    async def _find(self, where: str, *values: Any) -> list[dict[str, Any]]:
        with translate_errors(sqlite3.Error):
            rows = await self._rows(f"SELECT {', '.join(_COLUMNS)} FROM runs {where}", values)
        return [dict(zip(_COLUMNS, tuple(row), strict=True)) for row in rows]


class SqliteTraces:
    """Agent traces in the ``traces`` table, or logs of nodes in ``node_logs``."""

    def __init__(self, file: SqliteFile, table: Literal["traces", "node_logs"] = "traces") -> None:
        self._file = file
        self._rows = file.rows
        self._table = table

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace and delete the traces of the session's oldest runs, in the open transaction if any."""
        session = hex_session(record.session)
        newest = f"SELECT run_id FROM {self._table} WHERE session = ? ORDER BY started_ms DESC, run_id DESC LIMIT ?"
        row = (record.run_id, session, record.started_ms, write_trace(trace))

        def put(connection: sqlite3.Connection) -> None:
            connection.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, ?)", row)
            older = f"DELETE FROM {self._table} WHERE session = ? AND run_id NOT IN ({newest})"
            connection.execute(older, (session, session, MAX_TRACES))

        if not join_transaction(self._file, put):
            with translate_errors(sqlite3.Error):
                await self._file.do(lambda: put(self._file.connection))

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace."""
        with translate_errors(sqlite3.Error):
            rows = await self._rows(f"SELECT trace FROM {self._table} WHERE run_id = ?", (run_id,))
        return parse_trace(rows[0][0]) if rows else None

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces."""
        with translate_errors(sqlite3.Error):
            await self._rows(f"DELETE FROM {self._table} WHERE session = ?", (hex_session(session),))
