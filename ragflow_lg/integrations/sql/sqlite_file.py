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

import msgspec

from ragflow_lg.base.errors import ServiceError, WorkLimitError
from ragflow_lg.base.worker_tasks import WorkerTask, worker_task
from ragflow_lg.integrations.sql.rows import RowLimits, read_rows
from ragflow_lg.integrations.sql.statements import Statement
from ragflow_lg.services.databases import StatementResult
from ragflow_lg.services.workers import NoWorkers, Workers

MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Maximum size of one value, also of those that a query only computes with. The result has its own limit."""
OPERATIONS = 10_000
"""After how many operations of SQLite's machine the time is looked at: well below a millisecond."""
_GRACE_S = 2.0


def file_uri(path: str, options: Mapping[str, str], *, writes: bool) -> str:
    """Return SQLite's URI for a file, which is opened for reading unless it may be written.

    >>> file_uri("a b.db", {}, writes=False)
    'file:a%20b.db?mode=ro'
    """
    base = path if path.startswith("file:") else f"file:{quote(path)}"
    query = urlencode({"mode": "rw" if writes else "ro", **options})
    return f"{base}{'&' if '?' in base else '?'}{query}"


async def query_file(
    workers: Workers, uri: str, statements: Sequence[Statement], limits: RowLimits, timeout_s: float
) -> list[StatementResult]:
    """Run statements up to the first read without rows.

    Raises:
        ServiceError: if the file cannot be opened.
    """
    arguments = (uri, list(statements), limits, timeout_s)
    if not isinstance(workers, NoWorkers):
        seconds = timeout_s * len(statements) + _GRACE_S
        task = WorkerTask(run_statements.function, run_statements.activity, seconds, 0, is_long=True)
        try:
            return msgspec.convert(await workers.run(task, *arguments), list[StatementResult])
        except WorkLimitError as error:
            return [StatementResult(statement.text, error=str(error)) for statement in statements]
    stop = threading.Event()
    try:
        found = await asyncio.to_thread(run_statements.function, *arguments, stop.is_set)
    finally:
        stop.set()
    return msgspec.convert(found, list[StatementResult])


@worker_task("Querying the SQLite file", small_size=0)
def run_statements(
    uri: str,
    statements: list[Statement],
    limits: RowLimits,
    timeout_s: float,
    is_stopped: Callable[[], bool] | None = None,
) -> list[dict[str, Any]]:
    """Run statements; see `query_file`. In a worker process, nothing else stops them."""
    results: list[StatementResult] = []
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s)
    except sqlite3.Error as error:
        raise ServiceError(str(error), is_retryable=True) from error
    with closing(connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(MAX_VALUE_BYTES, limits.bytes))
        if "mode=ro" in uri:
            connection.execute("PRAGMA query_only = ON")
        if is_stopped is None:  # files have no limit, but the memory of a worker process has
            connection.execute("PRAGMA temp_store = MEMORY")
        for statement in statements:
            results.append(_run_one(connection, statement, limits, timeout_s, is_stopped or bool))
            if results[-1].ends_batch:
                break
    return [msgspec.to_builtins(result) for result in results]


def _run_one(
    connection: sqlite3.Connection,
    statement: Statement,
    limits: RowLimits,
    timeout_s: float,
    is_stopped: Callable[[], bool],
) -> StatementResult:
    deadline = time.monotonic() + timeout_s
    connection.set_progress_handler(lambda: is_stopped() or time.monotonic() > deadline, OPERATIONS)
    try:
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement.sent, statement.values)
            titles = None if cursor.description is None else [column[0] for column in cursor.description]
            return read_rows(statement.text, titles, cursor, limits, 1)
    except MemoryError:
        reason = "It needs too much memory. Select less."
    except sqlite3.Error as error:
        reason = str(error)
        if connection.in_transaction:
            connection.rollback()
        if time.monotonic() > deadline:
            reason = f"It took longer than {timeout_s:g} s and was stopped ([sql] timeout_s)."
        elif getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_TOOBIG:
            reason = f"A value in it is larger than {MAX_VALUE_BYTES:,} bytes. Select less."
    return StatementResult(statement.text, error=reason)
