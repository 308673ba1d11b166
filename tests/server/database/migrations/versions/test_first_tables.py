from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect

from ragflow_lg.server.database.migrations.versions import first_tables


def test_it_goes_both_ways() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        first_tables.upgrade()
        assert "agents" in inspect(connection).get_table_names()
        first_tables.downgrade()
        assert inspect(connection).get_table_names() == []
    engine.dispose()
