from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect

from ragflow_lg.server.database.migrations.versions import webhook_tables


def test_it_goes_both_ways() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        webhook_tables.upgrade()
        assert set(inspect(connection).get_table_names()) == {"webhook_buckets", "webhook_tests", "webhook_events"}
        webhook_tables.downgrade()
        assert inspect(connection).get_table_names() == []
    engine.dispose()
