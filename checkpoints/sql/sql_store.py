"""A store in the tables of a database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.checkpoints.records.leases import StoredLeases
from ragflow_lg.checkpoints.records.run_records import RecordTexts
from ragflow_lg.checkpoints.sql.sql_records import SqlCancels, SqlLeaseTable, SqlRecords, SqlTraces
from ragflow_lg.checkpoints.sql.sql_tables import SqlTables
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.store import Store

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.checkpoints.sql.sql_database import SqlDatabase


@asynccontextmanager
async def open_sql_store(database: SqlDatabase, keys: KeyRing | None) -> AsyncGenerator[Store]:
    """Open the store in a database, which is closed by somebody else."""
    leases, cancels, texts = StoredLeases(SqlLeaseTable(database)), SqlCancels(database), RecordTexts(keys)
    traces, node_logs = SqlTraces(database, texts, "trace"), SqlTraces(database, texts, "nodes")
    saver = CanvasSaver(SqlTables(database), keys)
    try:
        yield Store(saver, leases, SqlRecords(database, texts), cancels, traces, node_logs, keys=keys)
    finally:
        await cancels.aclose()
        await leases.settle()
