"""Statements on an SQLite file, in a process that can be killed: one value of a query can take gigabytes.

A worker process has a memory limit. Without workers, a thread runs the statements, and only single values are limited.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from ragflow_lg.adapters.sql.rows import RowLimits, Rows, rows_of
from ragflow_lg.adapters.sql.servers import GRACE_S
from ragflow_lg.base.errors import ServiceError, WorkLimitError
from ragflow_lg.base.worker_tasks import WorkerTask, worker_task
from ragflow_lg.services.workers import NoWorkers, Workers

MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Maximum size of one value, also of those that a query only computes with. The result has its own limit."""
OPERATIONS = 10_000
"""After how many operations of SQLite's machine the time is looked at: well below a millisecond."""


def file_uri(path: str, options: Mapping[str, str], *, writes: bool) -> str:
    """Return SQLite's URI for a file, which is opened for reading unless it may be written.

    >>> file_uri("a b.db", {}, writes=False)
    'file:a%20b.db?mode=ro'
    """
    base = path if path.startswith("file:") else f"file:{quote(path)}"
    query = urlencode({"mode": "rw" if writes else "ro", **options})
    return f"{base}{'&' if '?' in base else '?'}{query}"


async def query_file(
    workers: Workers, uri: str, statements: Sequence[Mapping[str, Any]], limits: RowLimits, timeout_s: float
) -> list[dict[str, Any]]:
    """Run statements and return the fields of `Rows` for each, or its ``error``; it ends after a read without rows.

    A statement has ``text``, ``values`` and ``is_read``.

    Raises:
        ServiceError: if the file cannot be opened.
    """
    arguments = (uri, [dict(one) for one in statements], limits.rows, limits.bytes, timeout_s)
    if not isinstance(workers, NoWorkers):
        seconds = timeout_s * len(statements) + GRACE_S
        task = WorkerTask(run_statements.function, run_statements.activity, seconds, 0, is_long=True)
        try:
            return await workers.run(task, *arguments)
        except WorkLimitError as error:
            return [{"error": str(error)} for _ in statements]
    stop = threading.Event()
    try:
        return await asyncio.to_thread(run_statements.function, *arguments, stop.is_set)
    finally:
        stop.set()


@worker_task("Querying the SQLite file", small_size=0)
def run_statements(
    uri: str,
    statements: list[dict[str, Any]],
    max_rows: int,
    max_bytes: int,
    timeout_s: float,
    is_stopped: Callable[[], bool] | None = None,
) -> list[dict[str, Any]]:
    """Run statements; see `query_file`. In a worker process, nothing else stops them."""
    limits = RowLimits(max_rows, max_bytes)
    results: list[dict[str, Any]] = []
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s)
    except sqlite3.Error as error:
        raise ServiceError(str(error), is_retryable=True) from error
    with closing(connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(MAX_VALUE_BYTES, max_bytes))
        if "mode=ro" in uri:
            connection.execute("PRAGMA query_only = ON")
        if is_stopped is None:  # files have no limit, but the memory of a worker process has
            connection.execute("PRAGMA temp_store = MEMORY")
        for statement in statements:
            results.append(_run_one(connection, statement, limits, timeout_s, is_stopped or bool))
            if results[-1].get("columns") and not results[-1]["rows"]:
                break
    return results


def _run_one(
    connection: sqlite3.Connection,
    statement: Mapping[str, Any],
    limits: RowLimits,
    timeout_s: float,
    is_stopped: Callable[[], bool],
) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    connection.set_progress_handler(lambda: is_stopped() or time.monotonic() > deadline, OPERATIONS)
    try:
        rows = _read(connection, statement, limits)
    except MemoryError:
        return {"error": "It needs too much memory. Select less."}
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.rollback()
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG:
            return {"error": f"A value in it is larger than {MAX_VALUE_BYTES:,} bytes. Select less."}
        return {"error": str(error), "is_late": time.monotonic() > deadline}
    return {name: getattr(rows, name) for name in rows.__struct_fields__}


def _read(connection: sqlite3.Connection, statement: Mapping[str, Any], limits: RowLimits) -> Rows:
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement["text"], statement["values"])
        if cursor.description is None:
            rows = Rows(None, [], cursor.rowcount)
        else:
            rows = rows_of([column[0] for column in cursor.description], cursor.fetchmany, limits, chunk_rows=1)
    if not statement["is_read"]:
        connection.commit()
    return rows
