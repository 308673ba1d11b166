from __future__ import annotations

import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database import migration as migrate
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.tables import Row
from tests.architecture.sources import ROOT
from tests.server.database.rows import URLS, agent, opened, version


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return [*compare_metadata(context, Row.metadata)]


async def test_the_migrations_make_the_tables_of_the_models_and_do_nothing_twice(tmp_path: Path) -> None:
    for _ in range(2):
        async with opened(tmp_path) as database, database.reading() as reading:
            assert await (await reading.connection()).run_sync(_differences) == []


def test_there_is_one_way_from_the_first_tables_to_the_last() -> None:
    scripts = ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))
    assert len(scripts.get_heads()) == 1
    steps = list(scripts.walk_revisions())
    assert [len(step.nextrev) for step in steps] == [0] + [1] * (len(steps) - 1)
    assert scripts.get_base() == steps[-1].revision == "0001"


async def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    async with opened(tmp_path) as database, database.writing() as writing:
        of_table = " ON runs" if "mariadb" in URLS[tmp_path] else ""
        await writing.execute(text(f"DROP INDEX ix_runs_tenant_agent_id_start_ms{of_table}"))
        for column in ("asked", "lease_token"):
            await writing.execute(text(f"ALTER TABLE runs DROP COLUMN {column}"))
        for table in ("webhook_events", "webhook_tests", "webhook_buckets"):
            await writing.execute(text(f"DROP TABLE {table}"))
        await writing.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    async with opened(tmp_path) as database, database.reading() as reading:
        assert await (await reading.connection()).run_sync(_differences) == []


async def test_a_database_of_a_newer_server_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as database, database.writing() as writing:
        await writing.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match="another version of the server"):
        async with opened(tmp_path):
            pass


REPLICA = """
import asyncio, sys
from ragflow_lg.server.database import migrate
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository

async def main():
    sys.stdin.readline()
    async with open_database(sys.argv[1]) as database:
        print(await KeyRepository(database).count())

asyncio.run(main())
"""


def test_replicas_that_start_at_once_take_turns(tmp_path: Path) -> None:
    assert opened
    command = [sys.executable, "-c", REPLICA, URLS[tmp_path]]
    replicas = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=ROOT) for _ in range(3)]
    for replica in replicas:
        assert replica.stdin is not None
        replica.stdin.write("go\n")
        replica.stdin.flush()
    ends = [(*replica.communicate(timeout=60), replica.returncode) for replica in replicas]
    assert [(told, code) for told, _, code in ends] == [("0\n", 0)] * 3, ends


async def test_small_and_capital_letters_are_told_apart(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await AgentRepository(database, "acme").add(agent(), version())
        assert await AgentRepository(database, "ACME").get("a1") is None
        assert await AgentRepository(database, "acm\u00e9").get("a1") is None


async def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    for kind in ("postgresql", "mariadb"):
        with pytest.raises(DatabaseError, match="cannot be used") as caught:
            async with open_database(f"{kind}://ada:geheim@127.0.0.1:9/x"):
                pass
        assert "geheim" not in str(caught.value)
