from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine, inspect, text

from ragflow_lg.server.database.migrations.versions import first_tables, runs_of_agents

NAME = "ix_runs_tenant_agent_id_start_ms"
LISTED = "SELECT * FROM runs WHERE tenant = 't' AND agent_id = 'a' ORDER BY start_ms DESC LIMIT 30"


def test_it_goes_both_ways_and_lists_use_it() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        first_tables.upgrade()
        runs_of_agents.upgrade()
        (plan,) = connection.execute(text(f"EXPLAIN QUERY PLAN {LISTED}")).all()
        assert NAME in plan[-1]
        runs_of_agents.downgrade()
        assert NAME not in {index["name"] for index in inspect(connection).get_indexes("runs")}
    engine.dispose()
