"""Run records and agent traces in tables."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec.structs import asdict, fields

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.records.run_records import (
    MAX_TRACES,
    hex_session,
    normalize_record,
    parse_trace,
    read_record,
    write_trace,
)
from ragflow_lg.services.sessions import RunRecord, Trace

_COLUMNS = tuple(field.name for field in fields(RunRecord))
_UPDATES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)
_PUT = (
    f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT (run_id) DO UPDATE SET {_UPDATES}"
)
_PAGE = "WHERE session = ? AND (started_ms, run_id) < (?, ?) ORDER BY started_ms DESC, run_id DESC LIMIT ?"
MAX_PAGE = 512

logger = logging.getLogger(__name__)


Statement: TypeAlias = "tuple[str, Sequence[Any]]"
"""A statement with question marks for its values."""


class SqlTables(Protocol):
    """The tables of a database. The methods raise CheckpointError if it fails."""

    async def read(self, query: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""
        ...

    async def write(self, *statements: Statement) -> None:
        """Execute statements in the open transaction, or by themselves."""
        ...


def marks(values: Sequence[Any]) -> str:
    """Return as many question marks as there are values, as a list in SQL."""
    return f"({', '.join('?' * len(values))})"


class SqlRecords:
    """Run records in the ``runs`` table."""

    def __init__(self, tables: SqlTables) -> None:
        self._tables = tables

    async def put(self, record: RunRecord) -> None:
        """Store a record in the open transaction, or by itself."""
        await self._tables.write((_PUT, list(asdict(normalize_record(record)).values())))

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
        for start in range(0, len(run_ids), MAX_PAGE):
            page = run_ids[start : start + MAX_PAGE]
            for table in ("traces", "node_logs", "runs"):
                query = f"DELETE FROM {table} WHERE session = ? AND run_id IN {marks(page)}"
                await self._tables.write((query, (hex_session(session), *page)))

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        await self._tables.write(("DELETE FROM runs WHERE session = ?", (hex_session(session),)))

    async def _select(self, where: str, *values: Any) -> AsyncIterator[RunRecord]:
        for row in await self._find(where, *values):
            yield read_record(row)

    async def _find(self, where: str, *values: Any) -> list[dict[str, Any]]:
        rows = await self._tables.read(f"SELECT {', '.join(_COLUMNS)} FROM runs {where}", values)
        return [dict(zip(_COLUMNS, tuple(row), strict=True)) for row in rows]


class SqlTraces:
    """Agent traces in the ``traces`` table, or logs of nodes in ``node_logs``."""

    def __init__(self, tables: SqlTables, table: Literal["traces", "node_logs"] = "traces") -> None:
        self._tables = tables
        self._table = table

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace and delete the traces of the session's oldest runs, in the open transaction if any."""
        session = hex_session(record.session)
        newest = f"SELECT run_id FROM {self._table} WHERE session = ? ORDER BY started_ms DESC, run_id DESC LIMIT ?"
        row = (record.run_id, session, record.started_ms, write_trace(trace))
        put = f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET trace = excluded.trace"
        older = f"DELETE FROM {self._table} WHERE session = ? AND run_id NOT IN ({newest})"
        await self._tables.write((put, row), (older, (session, session, MAX_TRACES)))

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace."""
        rows = await self._tables.read(f"SELECT trace FROM {self._table} WHERE run_id = ?", (run_id,))
        return parse_trace(rows[0][0]) if rows else None

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces."""
        await self._tables.write((f"DELETE FROM {self._table} WHERE session = ?", (hex_session(session),)))
