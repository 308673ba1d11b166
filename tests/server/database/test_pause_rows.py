import asyncio
from typing import Any

import pytest

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.pause_rows import claim, delete_expired, find_due, find_expiry
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import PauseTimeoutRow, RunRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import agent, session, version


async def end_run(database: Database, run_id: str = "r1", *, status: str = "waiting", timeout_s: int = 2) -> None:
    row = RunRow(id=run_id, agent_id="a1", version_id="v1", session_id="s1", start_ms=1000)
    await RunRepository(database, "t").add(row)
    ended = ClosedRow(run_id, "s1", status, "", Usage(), 1000, 3000, "hi", "Hello", pause_timeout_s=timeout_s)
    await write_turn(database, "t", ended)


async def create(database: Database, **values: Any) -> None:
    await AgentRepository(database, "t").create(agent(**values), version())
    await SessionRepository(database, "t").add(session())


async def test_only_one_of_many_claims_a_session_and_deletes_no_later_row(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as other:
        await create(one)
        await end_run(one)
        copies = [(db, (await find_due(db, 5000, 9))[0]) for db in (one, other) * 3]
        claims = await asyncio.gather(*(claim(db, row, 6000) for db, row in copies))
        assert sorted(claims) == [False] * 5 + [True]
        _, row = copies[claims.index(True)]
        assert await find_due(one, 5999, 9) == []
        assert await find_expiry(one, "t", "s1") == 5000  # what users see does not change
        await end_run(one, "r2", timeout_s=9)
        await delete_expired(one, row, "Too late.")
        assert await find_expiry(one, "t", "s1") == 12_000
        (row,) = await find_due(one, 12_000, 9)
        await delete_expired(one, row)
        assert await find_due(one, 99_000, 9) == []
        runs = [await RunRepository(one, "t").get(run_id) for run_id in ("r1", "r2")]
        assert [run.error for run in runs if run] == ["Too late.", ""]


@pytest.mark.parametrize("what", ["session", "agent"])
async def test_deleted_sessions_and_agents_leave_nothing(database: Database, what: str) -> None:
    await create(database)
    await end_run(database)
    if what == "agent":
        await AgentRepository(database, "t").delete("a1")
    else:
        await SessionRepository(database, "t").delete("a1", "s1")
    assert await find_due(database, 99_000, 9) == []


async def test_the_rows_of_all_tenants_that_are_due_come_in_order(database: Database) -> None:
    for number, due_ms in enumerate((2, 1, 3, 9)):
        row = PauseTimeoutRow(session_id=f"s{due_ms}", agent_id="a", run_id="r", expire_ms=due_ms, due_ms=due_ms)
        row.tenant = "one" if number % 2 else "two"
        async with database.writing() as db:
            db.add(row)
    assert [row.session_id for row in await find_due(database, 8, 2)] == ["s1", "s2"]
    assert [row.session_id for row in await find_due(database, 8, 9)] == ["s1", "s2", "s3"]
