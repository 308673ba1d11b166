from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import bindparam, select

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.plain_rows import adder, finder
from ragflow_lg.server.database.tables import RunRow, VersionRow
from tests.server.database.rows import opened, version

FIND = select(VersionRow.__table__).where(VersionRow.tenant == bindparam("tenant"), VersionRow.id == bindparam("id"))


def run(id_: str) -> RunRow:
    return RunRow(id=id_, tenant="t", agent_id="a", version_id="v", session_id="s", start_ms=1)


async def test_rows_are_added_and_found(tmp_path: Path) -> None:
    first, second = version("v1", dsl="\x00{}\ud800\U0001f600", tenant="t"), version("v2", tenant="other")
    async with opened(tmp_path) as database:
        await database.write(adder(first, second))
        found = await database.read(finder(FIND, {"tenant": "t", "id": "v1"}))
        assert await database.read(finder(FIND, {"tenant": "t", "id": "v2"})) is None
    assert found is not None
    assert (found["id"], found["dsl"], found["is_released"]) == ("v1", "{}?\U0001f600", False)
    assert VersionRow(**found).agent_id == "a1"


def test_what_a_row_leaves_open_gets_its_default_at_once() -> None:
    row = run("r1")
    adder(row)
    assert (row.status, row.error, row.prompt_tokens, row.end_ms) == ("running", "", 0, 0)


async def test_rows_of_several_tables_are_added_together_or_not_at_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.write(adder(run("r1")))
        with pytest.raises(DatabaseError):
            await database.write(adder(version("v1", tenant="t"), run("r1")))
        assert await database.read(finder(FIND, {"tenant": "t", "id": "v1"})) is None
