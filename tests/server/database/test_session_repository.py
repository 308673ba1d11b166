import asyncio

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.feedback_repository import FeedbackRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import FeedbackRow, RunRow
from ragflow_lg.server.database.usage_repository import DAY_MS, DailyLimit, UsageRepository
from tests.server.database.rows import agent, message, session


async def test_sessions_are_filtered_and_ordered(database: Database) -> None:
    sessions = SessionRepository(database, "t")
    await sessions.add(session("s1", create_ms=1, user_id="ada"), message("s1", "about 100% wool"))
    await sessions.add(session("s2", create_ms=2, update_ms=0, exp_user_id="ben"))
    await sessions.add(session("s3", "other"))
    cases: list[tuple[SessionQuery, list[str]]] = [
        (SessionQuery(), ["s1", "s2"]),
        (SessionQuery(order="create", is_descending=True), ["s2", "s1"]),
        (SessionQuery(is_descending=False), ["s2", "s1"]),
        (SessionQuery(page=2, page_size=1), ["s2"]),
        (SessionQuery(id="s2"), ["s2"]),
        (SessionQuery(user_id="ada"), ["s1"]),
        (SessionQuery(exp_user_id="ben"), ["s2"]),
        (SessionQuery(keywords="100%"), ["s1"]),
        (SessionQuery(keywords="%%"), []),
        (SessionQuery(from_ms=2), ["s2"]),
        (SessionQuery(until_ms=1), ["s1"]),
    ]
    for query, ids in cases:
        assert [row.id for row in (await sessions.find("a1", query))[0]] == ids
    assert await sessions.ids("a1") == ["s1", "s2"]


def run(number: int) -> RunRow:
    return RunRow(id=f"{number:032x}", agent_id="a", version_id="v", session_id="s", start_ms=number)


async def test_tokens_are_counted_by_day(database: Database) -> None:
    usage, limits = UsageRepository(database, "t"), [DailyLimit(100)]
    await SessionRepository(database, "t").add(session("s"))
    assert await usage.begin_turn(limits, 5 * DAY_MS, run(1)) is None
    await usage.add_usage(100, 0.5, 5 * DAY_MS)
    assert await usage.begin_turn(limits, 5 * DAY_MS, run(2)) == limits[0]
    assert await RunRepository(database, "t").get(run(1).id) is not None
    assert await RunRepository(database, "t").get(run(2).id) is None
    assert await usage.begin_turn(limits, 6 * DAY_MS) is None
    days = [await usage.day(day * DAY_MS) for day in (5, 6, 7)]
    assert [(day.turns, day.tokens, day.cost) for day in days] == [(1, 100, 0.5), (1, 0, 0), (0, 0, 0)]
    assert (await UsageRepository(database, "other").day(5 * DAY_MS)).turns == 0


async def test_replicas_count_turns_together(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as two:
        limits = [DailyLimit(), DailyLimit(page_key="k")]
        await SessionRepository(one, "t").add(session("s"))
        repositories = [UsageRepository(one, "t"), UsageRepository(two, "t")]
        await asyncio.gather(*(repositories[n % 2].begin_turn(limits, DAY_MS, run(n)) for n in range(24)))
        assert ((await repositories[0].day(DAY_MS)).turns, (await repositories[1].day(DAY_MS, "k")).turns) == (24, 24)
        assert (await RunRepository(one, "t").find("a", "", 1, 100))[1] == 24


async def test_a_session_that_is_being_deleted_gets_no_run(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as two:
        sessions = SessionRepository(one, "t")
        await sessions.add(agent(), session("s"))
        async with sessions.deleting("a1", "s"):
            turn = asyncio.create_task(UsageRepository(two, "t").begin_turn([DailyLimit()], DAY_MS, run(1)))
            assert await asyncio.wait({turn}, timeout=0.2) == (set(), {turn})
        with pytest.raises(RequestError, match="Session not found!"):
            await turn
        assert await RunRepository(one, "t").get(run(1).id) is None
        new = RunRow(id="r2", agent_id="a1", version_id="v", session_id="s2", start_ms=1)
        await UsageRepository(two, "t").begin_turn([DailyLimit()], DAY_MS, session("s2"), new)
        assert (await sessions.ids("a1"), (await RunRepository(one, "t").statuses(["r2"])).keys()) == (["s2"], {"r2"})


async def test_no_feedback_outlives_the_answer_that_it_is_on(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as two:
        sessions, feedback = SessionRepository(one, "t"), [FeedbackRepository(each, "t") for each in (one, two)]
        for number in range(1, 9):
            id_, of_run = f"s{number}", run(number)
            of_run.session_id = id_
            await sessions.add(session(id_), message(id_, "x"), of_run)

            def rating(of_run: RunRow = of_run) -> FeedbackRow:
                ids = {"run_id": of_run.id, "agent_id": "a1", "session_id": of_run.session_id}
                return FeedbackRow(**ids, rating="up", create_ms=1, update_ms=1)

            assert await feedback[0].put(rating())
            ratings = [(feedback[n % 2].put(rating()), feedback[n % 2].delete(of_run.id, id_)) for n in range(4)]
            await asyncio.gather(*(each for pair in ratings for each in pair), sessions.delete("a1", id_))
            assert not await feedback[1].put(rating())
        assert await feedback[0].of_runs([run(number).id for number in range(1, 9)]) == {}
