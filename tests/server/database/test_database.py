import asyncio
import socket
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import Database, database_file, open_database
from ragflow_lg.server.database.tables import VersionRow
from tests.harness.rows import each_row
from tests.server.database.rows import version


async def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async with open_database(f"sqlite:///{tmp_path}/server.db"):
        assert (tmp_path / "server.db").stat().st_mode & 0o777 == 0o600
    assert database_file(f"sqlite:///{tmp_path}/server.db") == tmp_path / "server.db"
    assert database_file("sqlite:///server.db") == Path.cwd() / "server.db"


async def test_written_rows_are_stored(database_url: str) -> None:
    async with open_database(database_url) as database:
        await database.add(version(dsl="\x00{}\ud800\U0001f600", tenant="t"))
    async with open_database(database_url) as database, database.reading() as db:
        assert [(row.id, row.dsl) for row in await db.scalars(select(VersionRow))] == [("v1", "{}\ufffd\U0001f600")]


async def test_writers_of_a_file_wait_for_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/server.db"
    async with open_database(url) as one, open_database(url) as other:

        async def count_up(database: Database) -> None:
            async with database.writing() as db:
                row = (await db.scalars(select(VersionRow))).one()
                row.create_ms += 1

        await one.add(version(create_ms=0, tenant="t"))
        await asyncio.gather(*(count_up(database) for database in (one, other) * 5))
        async with one.reading() as db:
            assert (await db.scalars(select(VersionRow))).one().create_ms == 10


@each_row(
    ("url", "problem"),
    [
        ("nonsense", "not a database URL"),
        ("oracle://x", "unknown database 'oracle'"),
        ("sqlite://", "does not contain a file name"),
        ("sqlite:///:memory:", "does not contain a file name"),
        ("sqlite:///{folder}", "it is a folder"),
        ("sqlite:///{folder}/text.db/x.db", r"cannot be used: (File exists|Not a directory). Correct `database` of"),
        ("sqlite:///{folder}/text.db", "cannot be used: file is not a database. Correct `database` of"),
    ],
)
async def test_a_database_that_cannot_be_opened_is_reported(tmp_path: Path, url: str, problem: str) -> None:
    (tmp_path / "text.db").write_text("this is not a database but a text of some length\n" * 20)
    with pytest.raises(DatabaseError, match=problem):
        async with open_database(url.format(folder=tmp_path)):
            pass


async def test_a_full_disk_is_named_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("INSERT", None, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr("ragflow_lg.server.database.database._is_newest", fail)
    with pytest.raises(DatabaseError, match=r"database or disk is full. Free some disk space.$"):
        async with open_database(f"sqlite:///{tmp_path}/s.db"):
            pass


async def test_a_database_that_does_not_answer_is_named_as_it_was_written() -> None:
    with pytest.raises(DatabaseError) as raised:
        async with open_database("postgresql://u:secret@127.0.0.1:1/x"):
            pass
    assert str(raised.value).startswith("The database 'postgresql://u:***@127.0.0.1:1/x' cannot be used: ")
    assert str(raised.value).endswith("Connection refused. Start the database, or correct `database` of [server].")


@pytest.mark.parametrize(("scheme", "reason"), [("postgresql", "timeout"), ("mysql", "it did not answer within 1 s")])
async def test_a_server_that_accepts_connections_and_is_silent_is_reported(
    scheme: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.database.database.CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DatabaseError, match=reason):
        async with open_database(f"{scheme}://u:p@127.0.0.1:{silent.getsockname()[1]}/x"):
            pass


async def test_errors_of_statements_contain_no_values(database: Database) -> None:
    with pytest.raises(DatabaseError, match=r"nowhere|1146") as caught:
        async with database.reading() as db:
            await db.execute(text("SELECT * FROM nowhere WHERE id = :key"), {"key": "secret-key"})
    assert "secret-key" not in str(caught.value)


async def test_errors_of_an_unreachable_server_contain_no_address(caplog: pytest.LogCaptureFixture) -> None:
    engine = create_async_engine("postgresql+psycopg://ada:geheim@127.0.0.1:9/agents")
    database = Database(engine)
    for call in (database.first, database.execute):
        with pytest.raises(DatabaseError, match=r"^The database failed: it cannot be reached\.$"):
            await call(select(1))
    assert "127.0.0.1" in caplog.text
    assert "geheim" not in caplog.text
    await engine.dispose()
