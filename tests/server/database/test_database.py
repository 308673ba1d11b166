from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text, update
from sqlalchemy.ext.asyncio import create_async_engine

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import Database, database_file, open_database
from ragflow_lg.server.database.plain_rows import adder
from ragflow_lg.server.database.tables import VersionRow
from tests.server.database.rows import opened, version


async def test_a_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    async with open_database(f"sqlite:///{tmp_path}/server.db"):
        assert (tmp_path / "server.db").stat().st_mode & 0o777 == 0o600
    assert database_file(f"sqlite:///{tmp_path}/server.db") == tmp_path / "server.db"
    assert database_file("sqlite:///server.db") == Path.cwd() / "server.db"


async def test_what_is_written_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as database, database.writing() as writing:
        row = version(dsl="\x00{}\ud800\U0001f600")
        row.tenant = "t"
        writing.add(row)
    async with opened(tmp_path) as database, database.reading() as reading:
        assert [(row.id, row.dsl) for row in await reading.scalars(select(VersionRow))] == [("v1", "{}?\U0001f600")]


async def test_a_failure_inside_writes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:

        async def fail() -> None:
            async with database.writing() as writing:
                row = version()
                row.tenant = "t"
                writing.add(row)
                await writing.flush()
                raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await fail()
        async with database.reading() as reading:
            assert await reading.scalar(select(VersionRow)) is None


async def test_writers_of_a_file_wait_for_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/server.db"
    async with open_database(url) as one, open_database(url) as other:

        async def count_up(database: object) -> None:
            async with database.writing() as writing:  # type: ignore[attr-defined]
                row = await writing.scalar(select(VersionRow))
                row.create_ms += 1

        async with one.writing() as writing:
            row = version(create_ms=0)
            row.tenant = "t"
            writing.add(row)
        await asyncio.gather(*(count_up(database) for database in (one, other) * 5))
        async with one.reading() as reading:
            assert (await reading.scalar(select(VersionRow))).create_ms == 10


async def test_work_writes_all_or_nothing_and_is_seen_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:

        def fail(connection: Connection) -> None:
            adder(version("v1", tenant="t"))(connection)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await database.write(fail)
        await database.write(adder(version("v2", tenant="t")))
        async with database.reading() as reading:
            assert [row.id for row in await reading.scalars(select(VersionRow))] == ["v2"]
        assert await database.read(lambda connection: connection.scalar(select(VersionRow.id))) == "v2"


async def test_both_ways_to_write_wait_for_each_other(tmp_path: Path) -> None:
    one_more = update(VersionRow).values(create_ms=VersionRow.create_ms + 1)
    async with opened(tmp_path) as database:
        await database.write(adder(version(create_ms=0, tenant="t")))

        async def with_the_mapper() -> None:
            async with database.writing() as writing:
                await writing.execute(one_more)

        async def without() -> None:
            await database.write(lambda connection: connection.execute(one_more).rowcount)

        await asyncio.gather(*(way() for way in (with_the_mapper, without) * 5))
        assert await database.read(lambda connection: connection.scalar(select(VersionRow.create_ms))) == 10


async def test_work_that_fails_is_told_without_its_values(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        query = text("SELECT * FROM nowhere WHERE id = :key")
        for way in (database.read, database.write):
            with pytest.raises(DatabaseError, match=r"nowhere|1146") as caught:
                await way(lambda connection: connection.execute(query, {"key": "secret-key"}))
            assert "secret-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "no URL of a database"),
        ("oracle://x", "no database 'oracle'"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///{folder}", "it is a folder"),
        ("sqlite:///{folder}/text.db", "cannot be used"),
    ],
)
async def test_what_cannot_be_opened_is_told(tmp_path: Path, url: str, told: str) -> None:
    (tmp_path / "text.db").write_text("this is no database at all, only a text of some length\n" * 20)
    with pytest.raises(DatabaseError, match=told):
        async with open_database(url.format(folder=tmp_path)):
            pass


async def test_a_failing_statement_is_told_without_its_values(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with pytest.raises(DatabaseError, match=r"nowhere|1146") as caught:
            async with database.reading() as reading:
                await reading.execute(text("SELECT * FROM nowhere WHERE id = :key"), {"key": "secret-key"})
        assert "secret-key" not in str(caught.value)


async def test_a_value_that_is_there_already_is_not_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:

        async def add() -> None:
            async with database.writing() as writing:
                row = version("secret-id", dsl="secret-canvas")
                row.tenant = "t"
                writing.add(row)

        await add()
        with pytest.raises(DatabaseError) as caught:
            await add()
        assert "secret" not in str(caught.value)


async def test_a_server_that_is_not_there_is_told_without_its_address(caplog: pytest.LogCaptureFixture) -> None:
    engine = create_async_engine("postgresql+psycopg://ada:geheim@127.0.0.1:9/agents")
    database = Database(engine)
    for asked in (database.read, database.write):
        with pytest.raises(DatabaseError, match=r"^The database failed: it cannot be reached\.$"):
            await asked(lambda _: None)
    assert "127.0.0.1" in caplog.text
    assert "geheim" not in caplog.text
    await engine.dispose()
