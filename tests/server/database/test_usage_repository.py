import asyncio

from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.usage_repository import DAY_MS, DailyLimits, UsageRepository


def run(number: int) -> RunRow:
    return RunRow(id=f"{number:032x}", agent_id="a", version_id="v", session_id="s", start_ms=number)


async def test_turns_are_counted_by_day(database_url: str) -> None:
    async with open_database(database_url) as database:
        usage, limits = UsageRepository(database, "t"), [DailyLimits(turns=2)]
        results = [await usage.begin_turn(limits, 5 * DAY_MS + n, run(n)) for n in (1, 2, 3)]
        assert [result is None or result.quota for result in results] == [True, True, "turns_day"]
        assert await RunRepository(database, "t").get(run(2).id) is not None
        assert await RunRepository(database, "t").get(run(3).id) is None
        assert await usage.begin_turn(limits, 6 * DAY_MS) is None
        assert [(await usage.day(day * DAY_MS)).turns for day in (5, 6, 7)] == [2, 1, 0]
        assert (await UsageRepository(database, "other").day(5 * DAY_MS)).turns == 0


async def test_replicas_do_not_exceed_a_quota_together(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as two:
        limits = [DailyLimits(turns=7), DailyLimits(turns=100, page_key="k")]
        repositories = [UsageRepository(one, "t"), UsageRepository(two, "t")]
        results = await asyncio.gather(*(repositories[n % 2].begin_turn(limits, DAY_MS, run(n)) for n in range(24)))
        assert sum(result is None for result in results) == 7
        assert ((await repositories[0].day(DAY_MS)).turns, (await repositories[1].day(DAY_MS, "k")).turns) == (7, 7)
        assert (await RunRepository(one, "t").find("a", "", 1, 100))[1] == 7
