"""What every migration that adds a column to the runs has to do."""

from types import ModuleType

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect, text

from ragflow_lg.server.database.migrations.versions import first_tables


def check_both_ways(migration: ModuleType, column: str, value: object) -> None:
    """Apply a migration to a stored run, which gets a value in the new column, and take it back."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        first_tables.upgrade()
        names = [column["name"] for column in inspect(connection).get_columns("runs")]
        values = ", ".join("'1'" for _ in names)
        connection.execute(text(f"INSERT INTO runs ({', '.join(names)}) VALUES ({values})"))
        migration.upgrade()
        assert connection.execute(text(f"SELECT id, {column} FROM runs")).all() == [("1", value)]
        migration.downgrade()
        assert [column["name"] for column in inspect(connection).get_columns("runs")] == names
    engine.dispose()
