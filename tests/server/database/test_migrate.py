from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from ragflow_lg.errors import DatabaseError
from server.database.migrate import migrate
from server.database.models import Row


def test_the_migrations_make_the_tables_of_the_models_and_do_nothing_twice(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/server.db")
    with engine.begin() as connection:
        migrate(connection)
        migrate(connection)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []
    engine.dispose()


def test_a_database_of_a_newer_server_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/server.db")
    with engine.begin() as connection:
        migrate(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(DatabaseError, match="another version of the server"):
            migrate(connection)
    engine.dispose()
