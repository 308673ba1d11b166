import pytest
from sqlalchemy import bindparam, select

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.prepared_statements import PreparedStatement, find_row, insert_rows
from ragflow_lg.server.database.tables import RunRow, VersionRow
from tests.server.database.rows import version

FIND = PreparedStatement(
    select(VersionRow.__table__).where(VersionRow.tenant == bindparam("tenant"), VersionRow.id == bindparam("id"))
)


def run(id_: str) -> RunRow:
    return RunRow(id=id_, tenant="t", agent_id="a", version_id="v", session_id="s", start_ms=1)


async def test_rows_are_inserted_and_selected(database_url: str) -> None:
    first, second = version("v1", dsl="\x00{}\ud800\U0001f600", tenant="t"), version("v2", tenant="other")
    async with open_database(database_url) as database:
        await database.write(insert_rows(first, second))
        row = await database.read(find_row(VersionRow, FIND, tenant="t", id="v1"))
        assert await database.read(find_row(VersionRow, FIND, tenant="t", id="v2")) is None
    assert row is not None
    assert (row.id, row.dsl, row.is_released) == ("v1", "{}\ufffd\U0001f600", False)
    assert (row.agent_id, row.title) == ("a1", first.title)


def test_unset_columns_get_their_defaults_at_once() -> None:
    row = run("r1")
    insert_rows(row)
    assert (row.status, row.error, row.prompt_tokens, row.end_ms) == ("running", "", 0, 0)


async def test_rows_of_several_tables_are_inserted_together_or_not_at_all(database_url: str) -> None:
    async with open_database(database_url) as database:
        await database.write(insert_rows(run("r1")))
        with pytest.raises(DatabaseError):
            await database.write(insert_rows(version("v1", tenant="t"), run("r1")))
        assert await database.read(find_row(VersionRow, FIND, tenant="t", id="v1")) is None
