"""Transactions in an SQLite file. Each runs in one step on the file's thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile
from ragflow_lg.checkpoints.steps.preconditions import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    Precondition,
)

_FIND_TOKEN = "SELECT token FROM leases WHERE thread_id = ? AND owner <> ''"
_COUNT_BLOBS = "SELECT count(*) FROM blobs WHERE thread_id = ? AND hash IN (SELECT value FROM json_each(?))"
_FIND_CHECKPOINT = "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"

_Work: TypeAlias = Callable[[], object]


class _PendingWork(NamedTuple):
    file: SqliteFile
    steps: list[_Work]


_pending_work: ContextVar[_PendingWork | None] = ContextVar("transaction", default=None)
"""The work collected in the open transaction."""


def join_transaction(file: SqliteFile, work: Callable[[sqlite3.Connection], object]) -> bool:
    """Add work to the transaction that is open in the same file, if any, and return whether there is one.

    It may belong to another connection, with which the work is done.
    """
    pending = _pending_work.get()
    if pending is None or pending.file.path != file.path:
        return False
    connection = pending.file.connection
    pending.steps.append(lambda: work(connection))
    return True


class SqliteTables:
    """The tables of `ragflow_lg.checkpoints.sql` in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def read(self, query: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""
        with translate_errors(sqlite3.Error):
            return await self._file.rows(query, values)

    async def write(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Execute statements in the open transaction, or by themselves."""

        def write(connection: sqlite3.Connection) -> None:
            for statement, values in statements:
                connection.execute(statement, values)

        if not join_transaction(self._file, write):
            with translate_errors(sqlite3.Error):
                await self._file.do(lambda: write(self._file.connection))


class Transactions:
    """Transactions that first collect their work and then run it in one step on the file's thread."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    @asynccontextmanager
    async def begin(self, precondition: Precondition | None) -> AsyncGenerator[None]:
        """Collect the work added inside the block and, on exit, run either all of it or nothing."""
        pending = _PendingWork(self._file, [])
        mark = _pending_work.set(pending)
        try:
            yield
        finally:
            _pending_work.reset(mark)
        await self._file.do(lambda: self._commit(precondition, pending.steps))

    async def add(self, work: _Work) -> None:
        """Add work to the open transaction. If there is none, run the work now in a new transaction."""
        pending = _pending_work.get()
        if pending is None:
            await self._file.do(lambda: self._commit(None, [work]))
        else:
            pending.steps.append(work)

    def _commit(self, precondition: Precondition | None, steps: Sequence[_Work]) -> None:
        with self._file.transaction():
            if precondition is not None:
                self._check(precondition)
            for work in steps:
                work()

    def _check(self, precondition: Precondition) -> None:
        execute, thread = self._file.connection.execute, precondition.thread
        lease = execute(_FIND_TOKEN, (thread,)).fetchone() or (NO_LEASE,)
        if lease != (precondition.token,):
            raise sqlite3.OperationalError(LEASE_MISSING if lease == (NO_LEASE,) else LEASE_TAKEN)
        if precondition.checkpoint and not execute(_FIND_CHECKPOINT, precondition.checkpoint).fetchone():
            raise sqlite3.OperationalError(CHECKPOINT_MISSING)
        blobs = precondition.blobs
        if blobs and execute(_COUNT_BLOBS, (thread, json.dumps(list(blobs)))).fetchone() != (len(blobs),):
            raise sqlite3.OperationalError(BLOB_MISSING)
