from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Table, bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database import prepared_statements
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.prepared_statements import PreparedStatement, insert_rows
from ragflow_lg.server.database.tables import VersionRow
from tests.server.database.rows import version

_VERSIONS = cast("Table", VersionRow.__table__)
FIND = PreparedStatement(select(_VERSIONS).where(_VERSIONS.c.id == bindparam("at_id")))
RELEASE = PreparedStatement(
    update(_VERSIONS)
    .where(_VERSIONS.c.id == bindparam("at_id"), _VERSIONS.c.title != "fixed")
    .values(is_released=bindparam("is_released"), title=bindparam("new_title"))
)
ADD = PreparedStatement(insert(_VERSIONS), tuple(_VERSIONS.columns.keys()))


async def test_values_are_converted_in_both_directions(database_url: str) -> None:
    async with open_database(database_url) as database:
        await database.write(insert_rows(version("v1", tenant="t"), version("v2", tenant="t", title="fixed")))
        change = {"is_released": True, "new_title": "a\x00\ud800"}
        changed = await database.write(
            lambda db: [RELEASE.execute(db, {**change, "at_id": f"v{n}"}) for n in (1, 2, 3)]
        )
        assert changed == [1, 0, 0]
        found = await database.read(lambda db: FIND.first(db, {"at_id": "v1"}))
    assert found is not None
    assert (found["is_released"], found["title"]) == (True, "a\ufffd")


async def test_an_insert_stores_defaults_for_missing_values(database_url: str) -> None:
    row = {"tenant": "t", "id": "v1", "agent_id": "a", "dsl": "{}", "create_ms": 1, "update_ms": 2}
    async with open_database(database_url) as database:
        await database.write(lambda db: ADD.execute(db, row))
        found = await database.read(lambda db: FIND.first(db, {"at_id": "v1"}))
    assert found == {**row, "title": "", "description": "", "is_released": False}


async def test_errors_have_the_classes_of_sqlalchemy_and_undo_the_transaction(database_url: str) -> None:
    def add_twice(connection: Connection) -> None:
        for _ in range(2):
            insert_rows(version("v1", tenant="t"))(connection)

    async with open_database(database_url) as database:
        with pytest.raises(DatabaseError) as raised:
            await database.write(add_twice)
        assert isinstance(raised.value.__cause__, IntegrityError)
        assert await database.read(lambda db: FIND.first(db, {"at_id": "v1"})) is None
        await database.write(insert_rows(version("v1", tenant="t")))


async def test_a_missing_value_is_an_error(database_url: str) -> None:
    async with open_database(database_url) as database:
        with pytest.raises((KeyError, DatabaseError)):
            await database.read(lambda db: FIND.first(db, {"other": "v1"}))


async def test_databases_that_take_turns_compile_a_statement_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile_ = prepared_statements._compile  # pyright: ignore[reportPrivateUsage]

    def count(*arguments: Any) -> Any:
        compiled.append("")
        return compile_(*arguments)

    monkeypatch.setattr(prepared_statements, "_compile", count)
    find = PreparedStatement(select(_VERSIONS).where(_VERSIONS.c.id == bindparam("at_id")))
    async with (
        open_database(f"sqlite:///{tmp_path}/one.db") as one,
        open_database(f"sqlite:///{tmp_path}/two.db") as two,
    ):
        await one.write(insert_rows(version("v1", tenant="t")))
        compiled.clear()
        found = [await database.read(lambda db: find.first(db, {"at_id": "v1"})) for database in (one, two) * 3]
    assert [row is not None for row in found] == [True, False] * 3
    assert len(compiled) == 2
