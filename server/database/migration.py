"""Migrates a database to the tables that this version of the server uses."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Table, event, text

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.tables import Row

if TYPE_CHECKING:
    from sqlalchemy import Connection

LOCK_WAIT_S = 120
"""How long a replica waits while another one is migrating."""

_LOCK = "ragflow-lg tables"


def migrate(connection: Connection, revision: str = "head") -> None:
    """Apply the missing ``migrations/versions``, in one transaction if the database supports it.

    Replicas that start at the same time migrate one after the other. MySQL and MariaDB commit each table separately.

    Raises:
        DatabaseError: If a newer server has migrated the database, or another replica's migration does not finish.
    """
    scripts = ScriptDirectory(str(Path(__file__).parent / "migrations"))

    def steps(current: Any, _: Any) -> Any:
        try:
            return scripts._upgrade_revs(revision, current)  # pyright: ignore[reportPrivateUsage]  # no public equivalent
        except CommandError as error:
            advice = "Use that version, or name a new database in [server] database."
            raise DatabaseError(f"Another version of the server has made the database: {error}. {advice}") from error

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev=revision) as environment:
        environment.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        with _lock(connection), _use_binary_collation(connection), environment.begin_transaction():
            environment.run_migrations()


@contextmanager
def _lock(connection: Connection) -> Generator[None]:
    """Keep other replicas waiting during the block."""
    match connection.dialect.name:
        case "postgresql":
            number = int.from_bytes(hashlib.sha256(_LOCK.encode()).digest()[:8], "big", signed=True)
            connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000}"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
            yield
        case "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield
        case _:
            # Lock names apply to the whole server, not to one database.
            name = hashlib.sha256(f"{_LOCK} {connection.engine.url.database}".encode()).hexdigest()[:60]
            lock = connection.execute(text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": LOCK_WAIT_S})
            if lock.scalar() != 1:
                raise DatabaseError(f"Another process has been migrating the tables for {LOCK_WAIT_S} s.")
            try:
                yield
                # The next replica must see the recorded version.
                connection.exec_driver_sql("COMMIT")
            finally:
                connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})


@contextmanager
def _use_binary_collation(connection: Connection) -> Generator[None]:
    """Make new tables case-sensitive on MySQL, as on the other databases, because tenants are compared by name."""

    def collate(table: Table, *_: Any, **__: Any) -> None:
        for kind in ("mysql", "mariadb"):
            table.dialect_options[kind]["charset"] = "utf8mb4"
            table.dialect_options[kind]["collate"] = "utf8mb4_bin"

    if connection.dialect.name not in ("mysql", "mariadb"):
        yield
        return
    event.listen(Table, "before_create", collate)
    try:
        yield
    finally:
        event.remove(Table, "before_create", collate)
