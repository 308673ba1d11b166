import asyncio
from typing import Any

import pytest

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.due_rows import (
    ScheduleRepository,
    change_due_row,
    claim,
    delete_expired,
    find_due_rows,
    find_expiry,
    set_next,
)
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import PauseTimeoutRow, RunRow, ScheduleRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import agent, schedule, session, version


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
        copies = [(db, (await find_due_rows(db, PauseTimeoutRow, 5000, 9))[0]) for db in (one, other) * 3]
        claims = await asyncio.gather(*(change_due_row(db, row, due_ms=6000) for db, row in copies))
        assert sorted(claims) == [False] * 5 + [True]
        _, row = copies[claims.index(True)]
        assert await find_due_rows(one, PauseTimeoutRow, 5999, 9) == []
        assert await find_expiry(one, "t", "s1") == 5000  # what users see does not change
        await end_run(one, "r2", timeout_s=9)
        await delete_expired(one, row, "Too late.")
        assert await find_expiry(one, "t", "s1") == 12_000
        (row,) = await find_due_rows(one, PauseTimeoutRow, 12_000, 9)
        await delete_expired(one, row)
        assert await find_due_rows(one, PauseTimeoutRow, 99_000, 9) == []
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
    assert await find_due_rows(database, PauseTimeoutRow, 99_000, 9) == []


async def test_only_one_of_many_claims_a_schedule_and_the_run_keeps_its_id(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as other:
        await ScheduleRepository(one, "us").add(schedule(due_ms=100))
        copies = [(db, (await find_due_rows(db, ScheduleRow, 100, 9))[0]) for db in (one, other) * 3]
        claims = await asyncio.gather(*(claim(db, row, 200, f"r{n}") for n, (db, row) in enumerate(copies)))
        assert sorted(claims) == [False] * 5 + [True]
        assert await find_due_rows(one, ScheduleRow, 199, 9) == []
        first = copies[claims.index(True)][1]
        (second,) = await find_due_rows(other, ScheduleRow, 200, 9)
        assert await claim(other, second, 300, "another")
        assert second.run_id == first.run_id != "another"
        assert not await set_next(one, first, 1000, "")  # it has lost its claim
        assert await set_next(other, second, 1000, "")
        (row,) = await find_due_rows(one, ScheduleRow, 1000, 9)
        assert (row.run_id, row.last_run_id, row.error) == ("", first.run_id, "")
        assert await claim(one, row, 2000, "r9")
        assert await set_next(one, row, 3000, "refused")
        (row,) = await find_due_rows(one, ScheduleRow, 3000, 9)
        assert (row.run_id, row.last_run_id, row.error) == ("", first.run_id, "refused")


async def test_the_rows_of_all_tenants_that_are_due_come_in_order(database: Database) -> None:
    for tenant, due_ms in (("one", 2), ("two", 1), ("one", 3), ("two", 9)):
        await ScheduleRepository(database, tenant).add(schedule(f"{tenant}{due_ms}", due_ms=due_ms))
    assert [row.id for row in await find_due_rows(database, ScheduleRow, 8, 2)] == ["two1", "one2"]
    assert [row.id for row in await find_due_rows(database, ScheduleRow, 8, 9)] == ["two1", "one2", "one3"]
