from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect, text

from ragflow_lg.server.database.migrations.versions import timeouts_of_pauses


def test_it_goes_both_ways() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        connection.execute(text("CREATE TABLE agents (id TEXT)"))
        timeouts_of_pauses.upgrade()
        assert inspect(connection).get_table_names() == ["agents", "pause_timeouts"]
        assert [column["name"] for column in inspect(connection).get_columns("agents")][1:] == [
            "pause_timeout_s",
            "pause_answer",
        ]
        timeouts_of_pauses.downgrade()
        assert inspect(connection).get_table_names() == ["agents"]
        assert [column["name"] for column in inspect(connection).get_columns("agents")] == ["id"]
    engine.dispose()
