"""The store in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.leases import StoredLeases
from ragflow_lg.checkpoints.sqlite.sqlite_cancels import SqliteCancels
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.sqlite.sqlite_leases import SqliteLeaseTable
from ragflow_lg.checkpoints.sqlite.sqlite_records import SqliteRuns, SqliteTraces
from ragflow_lg.checkpoints.sqlite.sqlite_saver import SqliteReader, sqlite_saver
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.services.services import Clock


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
        reader = SqliteReader(record_file)
        saver = await sqlite_saver(saver_file, reader.reads)
        leases = StoredLeases(SqliteLeaseTable(record_file, clock, reader))
        stack.push_async_callback(leases.settle)
        traces, node_logs = SqliteTraces(record_file), SqliteTraces(record_file, "node_logs")

        @asynccontextmanager
        async def together() -> AsyncGenerator[None]:
            with translate_errors(sqlite3.Error):
                async with record_file.together():
                    yield

        yield Store(
            saver, leases, SqliteRuns(record_file), SqliteCancels(record_file), traces, node_logs, together=together
        )
