"""Databases that canvases query with SQL: what a query is, what it returns, and the Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue


class DatabaseAccount(Struct, frozen=True):
    """A database and an account for it, as a canvas writes them. ``kind`` is RAGFlow's ``db_type``."""

    kind: str
    host: str
    port: int
    database: str
    username: str
    password: str = ""

    def __repr__(self) -> str:
        """Hide the password."""
        return f"DatabaseAccount({self.kind} {self.database!r} at {self.host}:{self.port})"


Target: TypeAlias = DatabaseAccount | str
"""An account of a canvas, or the name of a connection in the settings."""


class SqlQuery(Struct, frozen=True):
    """One or several statements."""

    sql: str
    values: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    """The values to bind, by the marks that stand for them in ``sql``: words that occur nowhere else in it."""
    max_rows: int = 1024
    """Maximum number of rows for each statement."""


class StatementResult(Struct, frozen=True):
    """What one statement returned: rows, a number of changed rows, or an error."""

    sql: str
    columns: tuple[str, ...] = ()
    """The titles as the database has them, of which several may be equal."""
    rows: Sequence[Mapping[str, JsonValue]] = ()
    """The values in the order of the columns, by names that are not equal: ``id``, ``id_2``."""
    error: str = ""
    changed: int | None = None
    """The number of changed rows of a statement that returns none; -1 if the database does not say."""
    is_refused: bool = False
    """Whether the statement was not run because it is not a read."""
    has_more: bool = False
    """Whether there are more rows than the limit lets through."""

    @property
    def ends_batch(self) -> bool:
        """Whether it is a read without rows, after which RAGFlow runs no other statement."""
        return bool(self.columns) and not self.rows


class Databases(Protocol):
    """The databases that canvases may query."""

    def allows_writes(self, target: Target) -> bool:
        """Return whether statements may change the database. An unknown connection allows nothing."""
        ...

    async def run(self, target: Target, query: SqlQuery) -> Sequence[StatementResult]:
        """Run the statements in order, up to the first read without rows. A failed statement does not stop them.

        Raises:
            SettingsError: if the connection is not in the settings, or a driver is missing.
            ServiceError: if the address is refused or the database cannot be reached.
        """
        ...

    async def check(self, target: Target, *, timeout_s: float | None = None) -> None:
        """Connect to a database and run a query that reads no table, which may take ``timeout_s``.

        Raises:
            SettingsError: if the connection is not in the settings, or a driver is missing.
            ServiceError: if the address is refused, or the database does not answer.
        """
        ...
