"""Bringing a database to the tables that this version of the server uses."""

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

__all__ = ["migrate"]

LOCK_WAIT_S = 120
"""How long a replica waits for another that is at work on the tables."""

_LOCK = "ragflow-lg tables"


def migrate(connection: Connection) -> None:
    """Apply what is missing of ``migrations/versions``, in one transaction where the database can.

    Replicas that start at the same time take turns. MySQL and MariaDB keep every table as soon as it is made.

    Raises:
        DatabaseError: if a newer version of the server has been at work, or somebody else is and does not end.
    """
    scripts = ScriptDirectory(str(Path(__file__).parent / "migrations"))

    def steps(current: Any, _: Any) -> Any:
        try:
            return scripts._upgrade_revs("head", current)  # pyright: ignore[reportPrivateUsage]  # the only way there is
        except CommandError as error:
            raise DatabaseError(f"The database was made by another version of the server: {error}.") from error

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        with _alone(connection), _told_apart(connection), environment.begin_transaction():
            environment.run_migrations()


@contextmanager
def _alone(connection: Connection) -> Generator[None]:
    """Keep other replicas waiting meanwhile."""
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
            # Names of locks are the whole server's, not the database's.
            name = hashlib.sha256(f"{_LOCK} {connection.engine.url.database}".encode()).hexdigest()[:60]
            got = connection.execute(text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": LOCK_WAIT_S})
            if got.scalar() != 1:
                raise DatabaseError(f"Somebody else has been changing the tables for {LOCK_WAIT_S} s.")
            try:
                yield
                # Who comes next has to see what was written down as done.
                connection.exec_driver_sql("COMMIT")
            finally:
                connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})


@contextmanager
def _told_apart(connection: Connection) -> Generator[None]:
    """Let new tables of MySQL tell ``a`` from ``A``, as the others do: tenants are names, too."""

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
