from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect, text

from ragflow_lg.server.database.migrations.versions import asked_of_runs, first_tables


def test_it_goes_both_ways_and_keeps_the_runs_there_are() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        first_tables.upgrade()
        names = [column["name"] for column in inspect(connection).get_columns("runs")]
        values = ", ".join("'1'" for _ in names)
        connection.execute(text(f"INSERT INTO runs ({', '.join(names)}) VALUES ({values})"))
        asked_of_runs.upgrade()
        assert connection.execute(text("SELECT id, asked FROM runs")).all() == [("1", None)]
        asked_of_runs.downgrade()
        assert [column["name"] for column in inspect(connection).get_columns("runs")] == names
    engine.dispose()
