from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect

from ragflow_lg.server.database.migrations.versions import deliveries_of_webhooks


def test_it_goes_both_ways() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        deliveries_of_webhooks.upgrade()
        assert inspect(connection).get_table_names() == ["webhook_deliveries"]
        deliveries_of_webhooks.downgrade()
        assert inspect(connection).get_table_names() == []
    engine.dispose()
