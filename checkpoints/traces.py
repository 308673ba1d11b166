"""What the agents of runs did, in memory and in SQLite."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.checkpoints.run_records import hex_session
from ragflow_lg.services.sessions import RunRecord, Trace

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

__all__ = ["RUNS_KEPT", "MemoryTraces", "SqliteTraces", "read_trace", "written_trace"]

RUNS_KEPT = 100
"""Of how many runs a session keeps the traces; older ones give way."""


def written_trace(trace: Trace) -> str:
    """Write a trace as JSON, whatever text is in it."""
    return json.dumps(trace, ensure_ascii=False).encode("utf-8", "replace").decode()


def read_trace(text: str | bytes | None) -> Trace | None:
    """Read a trace; None if there is none, or something else."""
    try:
        value: Any = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    return [block for block in cast("list[Any]", value) if _is_block(block)]


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("trace"), list)


class MemoryTraces:
    """Traces of one process."""

    def __init__(self) -> None:
        self._traces: dict[str, tuple[str, int, str]] = {}

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store the trace of a run."""
        session = hex_session(record.session)
        self._traces[record.run_id] = (session, record.started_ms, written_trace(trace))
        of_session = [(at, run) for run, (other, at, _) in self._traces.items() if other == session]
        for _, run_id in sorted(of_session)[:-RUNS_KEPT]:
            del self._traces[run_id]

    async def get(self, run_id: str) -> Trace | None:
        """Give the trace of a run."""
        held = self._traces.get(run_id)
        return read_trace(held[2]) if held else None

    async def delete_session(self, session: str) -> None:
        """Forget the traces of a session."""
        gone = hex_session(session)
        self._traces = {run_id: held for run_id, held in self._traces.items() if held[0] != gone}


class SqliteTraces:
    """Traces in the table ``traces``."""

    def __init__(self, file: SqliteFile) -> None:
        self._rows = file.rows

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store the trace of a run, and drop those of the session's oldest runs."""
        session = hex_session(record.session)
        kept = "SELECT run_id FROM traces WHERE session = ? ORDER BY started_ms DESC, run_id DESC LIMIT ?"
        with told_plainly(sqlite3.Error):
            await self._rows(
                "INSERT OR REPLACE INTO traces VALUES (?, ?, ?, ?)",
                (record.run_id, session, record.started_ms, written_trace(trace)),
            )
            await self._rows(
                f"DELETE FROM traces WHERE session = ? AND run_id NOT IN ({kept})", (session, session, RUNS_KEPT)
            )

    async def get(self, run_id: str) -> Trace | None:
        """Give the trace of a run."""
        with told_plainly(sqlite3.Error):
            rows = await self._rows("SELECT trace FROM traces WHERE run_id = ?", (run_id,))
        return read_trace(rows[0][0]) if rows else None

    async def delete_session(self, session: str) -> None:
        """Forget the traces of a session."""
        with told_plainly(sqlite3.Error):
            await self._rows("DELETE FROM traces WHERE session = ?", (hex_session(session),))
