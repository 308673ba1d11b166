"""Tables in a database, and transactions that first collect their statements and then execute them in one go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ragflow_lg.base.ids import thread_of_session

TABLES = """
CREATE TABLE IF NOT EXISTS session_checkpoints (
    thread_id TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL,
    checkpoint {bytes} NOT NULL, metadata {bytes} NOT NULL, PRIMARY KEY (thread_id, namespace, id)
);
CREATE TABLE IF NOT EXISTS session_writes (
    thread_id TEXT NOT NULL, namespace TEXT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL, number BIGINT NOT NULL,
    channel TEXT NOT NULL, value {bytes} NOT NULL, PRIMARY KEY (thread_id, namespace, id, task, number)
);
CREATE TABLE IF NOT EXISTS session_blobs (
    thread_id TEXT NOT NULL, name TEXT NOT NULL, content {bytes} NOT NULL, PRIMARY KEY (thread_id, name)
);
CREATE TABLE IF NOT EXISTS leases (
    thread_id TEXT PRIMARY KEY, token BIGINT NOT NULL, owner TEXT NOT NULL, expires_ms BIGINT NOT NULL,
    is_cancelled BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, session TEXT NOT NULL, name TEXT NOT NULL, canvas_id TEXT NOT NULL,
    canvas_hash TEXT NOT NULL, tenant TEXT NOT NULL, checkpoint TEXT NOT NULL, parent_run TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, is_cancel_requested BIGINT NOT NULL,
    started_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, ended_ms BIGINT NOT NULL, model TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS runs_of_session ON runs (session, started_ms);
CREATE TABLE IF NOT EXISTS traces (
    run_id TEXT NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL, started_ms BIGINT NOT NULL, trace TEXT NOT NULL,
    PRIMARY KEY (run_id, kind)
);
CREATE INDEX IF NOT EXISTS traces_of_session ON traces (session, started_ms);
"""
"""The tables of a deployment.

SQLite keeps rows in the order in which they are written. Blobs ordered by their names would change pages all over the
file: a write would take more time and space the longer the conversation is.
"""

Rows: TypeAlias = Sequence[Sequence[Any]]


class Statement(NamedTuple):
    """A statement with question marks for its values. ``check`` may refuse its rows by returning a message."""

    query: str
    values: Sequence[Any] = ()
    check: Callable[[Rows], str] | None = None


class _Collected(NamedTuple):
    database: SqlDatabase
    statements: list[Statement]


_collected: ContextVar[_Collected | None] = ContextVar("transaction", default=None)
"""The statements of the open transaction."""


class SqlDatabase(ABC):
    """The tables of a deployment."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """The exceptions that all methods raise if the database fails."""
    now_ms: ClassVar[str]
    """The expression for the time in milliseconds."""

    @abstractmethod
    async def read(self, query: str, values: Sequence[Any] = ()) -> Rows:
        """Return the rows of a query."""

    @abstractmethod
    async def commit(self, thread: str, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in a transaction, after others that concern the same thread. Return the rows of each.

        If a check returns a message, it fails with an error of `errors` that has the message.
        """

    async def write(self, thread: str, *statements: Statement) -> None:
        """Execute statements in the open transaction, or in one of their own."""
        collected = _collected.get()
        if collected is not None and collected.database is self:
            collected.statements.extend(statements)
        else:
            await self.commit(thread, statements)

    async def write_session(self, session: str, *statements: Statement) -> None:
        """Execute statements that concern a session in the open transaction, or in one of their own."""
        await self.write(thread_of_session(session), *statements)

    @asynccontextmanager
    async def transaction(self, thread: str, checks: Sequence[Statement]) -> AsyncGenerator[None]:
        """Execute what the block writes at its end, after the checks: all of it, or nothing."""
        collected = _Collected(self, [*checks])
        mark = _collected.set(collected)
        try:
            yield
        finally:
            _collected.reset(mark)
        await self.commit(thread, collected.statements)


def marks(values: Sequence[Any]) -> str:
    """Return as many question marks as there are values, as a list in SQL."""
    return f"({', '.join('?' * len(values))})"
