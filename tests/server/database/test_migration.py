from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database import migration
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import NEWEST_VERSION, Database, open_database
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import Row
from tests.architecture.sources import ROOT
from tests.harness.loaded_python import python_command
from tests.server.database.rows import agent, version


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return [*compare_metadata(context, Row.metadata)]


async def test_migrations_create_the_tables_of_the_models_and_are_idempotent(database_url: str) -> None:
    for _ in range(2):
        async with open_database(database_url) as database, database.reading() as db:
            assert await (await db.connection()).run_sync(_differences) == []


def test_migrations_form_a_single_line() -> None:
    scripts = ScriptDirectory(str(Path(migration.__file__).parent / "migrations"))
    assert len(scripts.get_heads()) == 1
    steps = list(scripts.walk_revisions())
    assert [len(step.nextrev) for step in steps] == [0] + [1] * (len(steps) - 1)
    assert scripts.get_base() == steps[-1].revision == "first_tables"
    assert steps[0].revision == NEWEST_VERSION


async def test_sessions_of_the_first_tables_stay(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/server.db"
    columns = "tenant, id, agent_id, version_id, user_id, exp_user_id, name, source, conversation, visitor, errors"
    numbers = "tokens, rounds, duration_s, stored_bytes, create_ms, update_ms"
    engine = create_engine(url)
    with engine.begin() as connection:
        migration.migrate(connection, "first_tables")
        connection.exec_driver_sql(
            f"INSERT INTO sessions ({columns}, {numbers}) VALUES "
            "('acme', 's1', 'a1', 'v1', '', '', 'Old', '', '', '', '', 0, 0, 0, 0, 1, 1)"
        )
        columns, numbers = "tenant, session_id, role, content, run_id, reference", "number, create_ms"
        connection.exec_driver_sql(
            f"INSERT INTO messages ({columns}, {numbers}) VALUES ('acme', 's1', 'user', 'Hi', '', '', 0, 1)"
        )
    engine.dispose()
    async with open_database(url) as database:
        sessions = SessionRepository(database, "acme")
        row = await sessions.get("s1")
        assert row is not None
        (message,) = (await sessions.messages(["s1"]))["s1"]
        assert (message.content, message.files) == ("Hi", None)
        assert (row.name, row.is_pinned, row.share_digest) == ("Old", False, None)


@pytest.mark.parametrize("version", ["9999", "0001"], ids=["newer", "before the first release"])
async def test_a_database_of_another_server_is_refused(database_url: str, version: str) -> None:
    async with open_database(database_url) as database, database.writing() as db:
        await db.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    with pytest.raises(DatabaseError, match="Another version of the server"):
        async with open_database(database_url):
            pass


REPLICA = """
import asyncio, sys
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository

async def main():
    sys.stdin.readline()
    async with open_database(sys.argv[1]) as database:
        print(await KeyRepository(database).count())

asyncio.run(main())
"""


def test_replicas_that_start_at_once_take_turns(database_url: str) -> None:
    command = python_command("-c", REPLICA, database_url)
    replicas = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=ROOT) for _ in range(3)]
    for replica in replicas:
        assert replica.stdin is not None
        replica.stdin.write("go\n")
        replica.stdin.flush()
    ends = [(*replica.communicate(timeout=180), replica.returncode) for replica in replicas]
    assert [(output, code) for output, _, code in ends] == [("0\n", 0)] * 3, ends


async def test_names_are_case_sensitive(database: Database) -> None:
    await AgentRepository(database, "acme").create(agent(), version())
    assert await AgentRepository(database, "ACME").get("a1") is None
    assert await AgentRepository(database, "acm\u00e9").get("a1") is None
