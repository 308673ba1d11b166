"""Bringing a database to the tables that this version of the server uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from ragflow_lg.errors import DatabaseError
from server.database.models import Row

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["migrate"]


def migrate(connection: Connection) -> None:
    """Apply what is missing of ``migrations/versions``, in one transaction where the database can.

    Raises:
        DatabaseError: if a newer version of the server has been at work.
    """
    scripts = ScriptDirectory(str(Path(__file__).parent / "migrations"))

    def steps(current: Any, _: Any) -> Any:
        try:
            return scripts._upgrade_revs("head", current)  # pyright: ignore[reportPrivateUsage]  # the only way there is
        except CommandError as error:
            raise DatabaseError(f"The database was made by another version of the server: {error}.") from error

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        with environment.begin_transaction():
            environment.run_migrations()
