import asyncio

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.due_rows import find_due_rows
from ragflow_lg.server.database.schedule_repository import ScheduleRepository, claim, set_next
from ragflow_lg.server.database.tables import ScheduleRow
from ragflow_lg.server.database.usage_repository import UsageRepository
from tests.server.database.rows import agent, schedule, version


async def test_schedules_belong_to_a_tenant_and_an_agent(database_url: str) -> None:
    async with open_database(database_url) as database:
        ours, theirs = ScheduleRepository(database, "us"), ScheduleRepository(database, "them")
        await AgentRepository(database, "us").add(agent(), version())
        for row in (schedule("s1"), schedule("s2", create_ms=2), schedule("s3", "a2", create_ms=3)):
            await ours.add(row)
        assert [row.id for row in await ours.list("", 1, 9)] == ["s1", "s2", "s3"]
        assert [row.id for row in await ours.list("a1", 2, 1)] == ["s2"]
        assert (await theirs.list("", 1, 9), await theirs.delete("s1")) == ([], False)
        assert [await ours.delete("s1", "a2"), await ours.delete("s3", "a2")] == [False, True]
        assert await UsageRepository(database, "us").count("schedules") == 2
        await AgentRepository(database, "us").delete("a1")
        assert await ours.list("", 1, 9) == []


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


async def test_the_rows_of_all_tenants_that_are_due_come_in_order(database_url: str) -> None:
    async with open_database(database_url) as database:
        for tenant, due_ms in (("one", 2), ("two", 1), ("one", 3), ("two", 9)):
            await ScheduleRepository(database, tenant).add(schedule(f"{tenant}{due_ms}", due_ms=due_ms))
        assert [row.id for row in await find_due_rows(database, ScheduleRow, 8, 2)] == ["two1", "one2"]
        assert [row.id for row in await find_due_rows(database, ScheduleRow, 8, 9)] == ["two1", "one2", "one3"]
