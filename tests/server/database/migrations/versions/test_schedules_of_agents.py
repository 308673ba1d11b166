from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect

from ragflow_lg.server.database.migrations.versions import schedules_of_agents


def test_it_goes_both_ways() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        schedules_of_agents.upgrade()
        assert inspect(connection).get_table_names() == ["schedules"]
        schedules_of_agents.downgrade()
        assert inspect(connection).get_table_names() == []
    engine.dispose()
