"""Records of runs, in memory and in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, fields

from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.base.values import to_json
from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.services.sessions import RunRecord

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

__all__ = ["MemoryRuns", "SqliteRuns", "as_kept", "hex_session"]

_COLUMNS = tuple(field.name for field in fields(RunRecord))


def hex_session(session: str) -> str:
    """Give the 32 digits under which a session is kept."""
    return session_of_thread(thread_of_session(session))


def as_kept(record: RunRecord) -> RunRecord:
    """Give a record as it is kept: by the session's 32 digits, and without lone surrogates, which no store takes."""
    values: dict[str, Any] = to_json(asdict(record))
    values["session"] = hex_session(record.session)
    return RunRecord(**values)


class MemoryRuns:
    """Records of one process."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        self._records[record.run_id] = as_kept(record)

    async def get(self, run_id: str) -> RunRecord | None:
        """Give a record."""
        return self._records.get(run_id)

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Give the records of a session, newest first."""
        for record in self._sorted():
            if record.session == hex_session(session):
                yield record

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Give the newest record of every session, newest first."""
        seen: set[str] = set()
        for record in self._sorted():
            if record.session not in seen:
                seen.add(record.session)
                yield record

    async def delete_session(self, session: str) -> None:
        """Forget all runs of a session."""
        self._records = {k: record for k, record in self._records.items() if record.session != hex_session(session)}

    def _sorted(self) -> list[RunRecord]:
        return sorted(self._records.values(), key=lambda record: (record.started_ms, record.run_id), reverse=True)


class SqliteRuns:
    """Records in the table ``runs``."""

    def __init__(self, file: SqliteFile) -> None:
        self._rows = file.rows

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        values = list(asdict(as_kept(record)).values())
        places = ", ".join("?" * len(_COLUMNS))
        with told_plainly(sqlite3.Error):
            await self._rows(f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) VALUES ({places})", values)

    async def get(self, run_id: str) -> RunRecord | None:
        """Give a record."""
        async for record in self._select("WHERE run_id = ?", run_id):
            return record
        return None

    def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Give the records of a session, newest first."""
        return self._select("WHERE session = ? ORDER BY started_ms DESC, run_id DESC", hex_session(session))

    def sessions(self) -> AsyncIterator[RunRecord]:
        """Give the newest record of every session, newest first."""
        of_session = "SELECT run_id FROM runs AS other WHERE other.session = runs.session"
        newest = f"{of_session} ORDER BY started_ms DESC, run_id DESC LIMIT 1"
        return self._select(f"WHERE run_id = ({newest}) ORDER BY started_ms DESC, run_id DESC")

    async def delete_session(self, session: str) -> None:
        """Forget all runs of a session."""
        with told_plainly(sqlite3.Error):
            await self._rows("DELETE FROM runs WHERE session = ?", (hex_session(session),))

    async def _select(self, where: str, *values: Any) -> AsyncIterator[RunRecord]:
        query = f"SELECT {', '.join(_COLUMNS)} FROM runs {where}"
        with told_plainly(sqlite3.Error):
            rows = await self._rows(query, values)
        for row in rows:
            held: dict[str, Any] = dict(zip(_COLUMNS, tuple(row), strict=True))
            held["is_cancel_requested"] = bool(held["is_cancel_requested"])
            yield RunRecord(**held)
