"""Real databases for tests of ExeSQL: an SQLite file, and new databases in the servers of the test run."""

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.integrations.sql.configured_databases import ConfiguredDatabases
from ragflow_lg.integrations.sql.sql_settings import ConnectionSettings, SqlSettings
from ragflow_lg.services.databases import DatabaseAccount, SqlQuery, StatementResult
from ragflow_lg.services.workers import Workers
from tests.fakes.threads import LoopThread
from tests.harness.database_servers import NotInstalledError
from tests.harness.shared_databases import database_server_url

KINDS = ("sqlite", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("postgres", "mariadb")))
_SERVERS = {"postgres": "postgresql", "mariadb": "mariadb"}

SHOP = (
    "CREATE TABLE goods (id int, name varchar(40), price decimal(8,2), since timestamp NULL)",
    "INSERT INTO goods VALUES (1, 'tea', 2.5, '2026-05-04 03:02:01'), (2, 'jam', NULL, NULL), (3, '50% off', 1, NULL)",
)
"""Statements that fill a database."""


@contextmanager
def new_database(kind: str, folder: Path) -> Generator[DatabaseAccount]:
    """Yield the account of a new, empty database. A server that is not installed skips the test."""
    name = f"shop_{token_hex(4)}"
    if kind == "sqlite":
        path = folder / f"{name} ?.db"
        sqlite3.connect(path).close()
        yield DatabaseAccount("sqlite", "", 0, str(path), "")
        return
    try:
        parts = urlsplit(database_server_url(_SERVERS[kind]))
    except NotInstalledError as error:
        if os.environ.get("REQUIRE_DATABASES"):
            raise
        pytest.skip(str(error))
    account = DatabaseAccount(
        kind, parts.hostname or "", parts.port or 0, parts.path[1:], parts.username or "", unquote(parts.password or "")
    )
    execute(account, [f"CREATE DATABASE {name}"])
    yield replace(account, database=name)
    execute(account, [f"DROP DATABASE {name}" + (" WITH (FORCE)" if kind == "postgres" else "")])


def execute(account: DatabaseAccount, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    """Run statements with the driver alone; return the rows of the last one."""
    connection: Any = connect(account)
    try:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        rows = list(cursor.fetchall()) if cursor.description else []
        if account.kind == "sqlite":
            connection.commit()
        return rows
    finally:
        connection.close()


def connect(account: DatabaseAccount) -> Any:
    """Return an open connection of the driver, which commits every statement of a server."""
    if account.kind == "sqlite":
        return sqlite3.connect(account.database)
    fields: dict[str, Any] = {
        "host": account.host,
        "port": account.port,
        "user": account.username,
        "password": account.password,
    }
    if account.kind == "postgres":
        import psycopg

        return psycopg.connect(**fields, dbname=account.database, autocommit=True)
    return _MariaDb(fields | {"db": account.database})


class _MariaDb:
    """asyncmy as a synchronous connection, in an event loop of its own."""

    def __init__(self, fields: dict[str, Any]) -> None:
        from asyncmy.connection import connect  # pyright: ignore[reportUnknownVariableType]

        self._thread = LoopThread()

        async def open_connection() -> Any:
            return await connect(**fields, autocommit=True)

        self._connection = self._thread.run(open_connection())
        self._cursor: Any = self._connection.cursor()

    def cursor(self) -> Any:
        return self

    def execute(self, statement: str) -> None:
        self._thread.run(self._cursor.execute(statement))

    @property
    def description(self) -> Any:
        return self._cursor.description

    def fetchall(self) -> Any:
        return self._thread.run(self._cursor.fetchall())

    def close(self) -> None:
        self._connection.close()
        self._thread.close()


def open_databases(
    account: DatabaseAccount,
    *,
    options: dict[str, str] | None = None,
    allow: Sequence[str] = (),
    workers: Workers | None = None,
    **settings: Any,
) -> ConfiguredDatabases:
    """Return databases with the connections ``reader`` and ``writer`` to an account."""
    connections = {
        "reader": ConnectionSettings(account, options or {}),
        "writer": ConnectionSettings(account, options or {}, allow_writes=True),
    }
    return ConfiguredDatabases(SqlSettings(connections=connections, **settings), AddressGuard(allow), workers)


async def ask(
    databases: ConfiguredDatabases, sql: str, target: str | DatabaseAccount = "reader", **options: Any
) -> list[StatementResult]:
    """Run SQL and return the results."""
    return list(await databases.run(target, SqlQuery(sql, **options)))
