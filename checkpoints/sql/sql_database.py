"""Tables in a database, and transactions that first collect their statements and then execute them in one go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

TABLES = Path(__file__).with_name("tables.sql").read_text("utf-8")
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
