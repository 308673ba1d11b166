from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect, text

from ragflow_lg.server.database.migrations.versions import conversations_of_sessions, first_tables


def test_it_goes_both_ways_and_keeps_the_sessions_there_are() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        first_tables.upgrade()
        names = [column["name"] for column in inspect(connection).get_columns("sessions")]
        values = ", ".join("'1'" for _ in names)
        connection.execute(text(f"INSERT INTO sessions ({', '.join(names)}) VALUES ({values})"))
        conversations_of_sessions.upgrade()
        assert connection.execute(text("SELECT id, conversation FROM sessions")).all() == [("1", "")]
        assert conversations_of_sessions.INDEX in {
            index["name"] for index in inspect(connection).get_indexes("sessions")
        }
        conversations_of_sessions.downgrade()
        assert [column["name"] for column in inspect(connection).get_columns("sessions")] == names
    engine.dispose()
