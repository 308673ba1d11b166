"""Schedules are started by servers that share a database. The clock is a function."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from ragflow_lg.base.errors import DatabaseError, QuotaError
from ragflow_lg.server.agents.agent_schedules import NewSchedule, create_schedule
from ragflow_lg.server.database.due_rows import ScheduleRepository, claim, find_due_rows
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import RunRow, ScheduleRow, SessionRow
from ragflow_lg.server.runs.due_tasks import CLAIM_MS, DueTasks, looking_for_due_rows
from ragflow_lg.server.runs.schedule_runs import ScheduleStarts
from ragflow_lg.services.sessions import RunRecord
from tests.server.database.rows import schedule
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.server.http.native.native_client import native

MINUTE_MS, DAY_MS = 60_000, 86_400_000
START_MS = 1_800_000_000_000
CLAIMED_MS = CLAIM_MS + 60_000
"""How long a claim lasts with the default settings, and a little more."""


class Time:
    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> int:
        return self.ms


async def start_due(runs: DueTasks[Any]) -> None:
    while await runs.look():
        await runs.wait_for_room(10)
    while runs._starts:  # pyright: ignore[reportPrivateUsage]
        await runs.wait_for_room(10)


async def add(server: AppServer, agent_id: str, cron: str = "* * * * *", **values: Any) -> ScheduleRow:
    agent = await server.agent_row(agent_id)
    new = NewSchedule(cron, query="Hi", **values)
    return await create_schedule(server.app_state.database, agent, server.app_state.new_id(), new, START_MS)


async def read(server: AppServer, agent_id: str) -> ScheduleRow:
    (row,) = await ScheduleRepository(server.app_state.database, server.tenant).list(agent_id, 1, 9)
    return row


async def sessions(server: AppServer, agent_id: str) -> list[SessionRow]:
    return (await SessionRepository(server.app_state.database, server.tenant).find(agent_id, SessionQuery()))[0]


@asynccontextmanager
async def scheduled(folder: Path, cron: str = "* * * * *", **options: Any) -> AsyncGenerator[tuple[Any, ...]]:
    """Start a server with an agent that has a schedule; yield the server, the agent, the starts and the time."""
    async with start_app(folder, **options) as server:
        agent_id, time = await server.agent(ECHO), Time()
        await add(server, agent_id, cron)
        yield server, agent_id, ScheduleStarts(server.app_state, server.turns, time), time


async def test_each_time_starts_a_turn_in_a_new_session(tmp_path: Path) -> None:
    async with scheduled(tmp_path, "0 0 * * *") as (server, agent_id, runs, time):
        await start_due(runs)
        assert await sessions(server, agent_id) == []
        for count in (1, 2):
            time.ms = (await read(server, agent_id)).due_ms
            await start_due(runs)
            row = await read(server, agent_id)
            assert (row.due_ms - time.ms, row.run_id, row.error) == (DAY_MS, "", "")
            await server.app_state.run_manager.wait(row.last_run_id)
            rows = await sessions(server, agent_id)
            assert [(session.source, session.name) for session in rows] == [("schedule", "Hi")] * count
        run = await server.run_row(row.last_run_id)
        assert run.status == "succeeded"
        messages = await SessionRepository(server.app_state.database, server.tenant).messages([run.session_id])
        assert [message.content for message in messages[run.session_id]] == ["Hi", "You said Hi"]


async def test_missed_times_start_one_turn(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        time.ms += 3 * DAY_MS
        await start_due(runs)
        await start_due(runs)
        assert len(await sessions(server, agent_id)) == 1
        assert time.ms < (await read(server, agent_id)).due_ms <= time.ms + MINUTE_MS


async def test_a_clock_that_is_set_back_starts_no_second_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        due_ms = time.ms = (await read(server, agent_id)).due_ms
        play = server.turns.play

        async def play_earlier(*arguments: Any, **options: Any) -> Any:
            time.ms = due_ms - 10_000
            return await play(*arguments, **options)

        monkeypatch.setattr(server.turns, "play", play_earlier)
        await start_due(runs)
        assert (await read(server, agent_id)).due_ms == due_ms + MINUTE_MS
        time.ms = due_ms
        await start_due(runs)
        assert len(await sessions(server, agent_id)) == 1


async def test_one_of_two_servers_starts_each_turn(tmp_path: Path, database_url: str) -> None:
    options: dict[str, Any] = {"database": SecretStr(database_url)}
    async with start_app(tmp_path, **options) as one, start_app(tmp_path, **options) as other:
        time = Time()
        agents = [await one.agent(ECHO, f"Agent {number}") for number in range(4)]
        for agent_id in agents:
            await add(one, agent_id)
        servers = [ScheduleStarts(server.app_state, server.turns, time) for server in (one, other, one, other)]
        for _ in range(2):
            time.ms += MINUTE_MS
            await asyncio.gather(*map(start_due, servers))
        assert [len(await sessions(one, agent_id)) for agent_id in agents] == [2] * 4


async def test_a_server_that_died_before_the_start_is_replaced(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        time.ms += MINUTE_MS
        (row,) = await find_due_rows(server.app_state.database, ScheduleRow, time.ms, 9)
        assert await claim(server.app_state.database, row, time.ms + CLAIMED_MS, "f" * 32)
        await start_due(runs)
        assert await sessions(server, agent_id) == []
        time.ms += CLAIMED_MS
        await start_due(runs)
        assert (len(await sessions(server, agent_id)), (await read(server, agent_id)).last_run_id) == (1, "f" * 32)


async def test_a_server_that_died_after_the_start_is_not_repeated(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        database, run_id = server.app_state.database, "f" * 32
        time.ms += MINUTE_MS
        (row,) = await find_due_rows(database, ScheduleRow, time.ms, 9)
        assert await claim(database, row, time.ms + CLAIMED_MS, run_id)
        run = RunRow(id=run_id, agent_id=agent_id, version_id="v", session_id="s", start_ms=1)
        await RunRepository(database, server.tenant).add(run)
        await server.app_state.store.runs.put(RunRecord(run_id, "s"))
        time.ms += CLAIMED_MS
        await start_due(runs)
        assert await sessions(server, agent_id) == []
        row = await read(server, agent_id)
        assert (row.last_run_id, row.run_id, row.due_ms > time.ms) == (run_id, "", True)


async def test_a_run_whose_server_died_before_it_began_is_started(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        database, run_id, session_id = server.app_state.database, "f" * 32, await server.session(agent_id)
        time.ms += MINUTE_MS
        (row,) = await find_due_rows(database, ScheduleRow, time.ms, 9)
        assert await claim(database, row, time.ms + CLAIMED_MS, run_id)
        run = RunRow(id=run_id, agent_id=agent_id, version_id="v", session_id=session_id, start_ms=1, asked="Hi")
        await RunRepository(database, server.tenant).add(run)
        time.ms += CLAIMED_MS
        await start_due(runs)
        assert (await read(server, agent_id)).last_run_id == run_id
        await server.app_state.run_manager.wait(run_id)
        (session,) = await sessions(server, agent_id)
        assert session.id != session_id, "nothing is left of the first attempt"
        messages = await SessionRepository(database, server.tenant).messages([session.id])
        assert [message.content for message in messages[session.id]] == ["Hi", "You said Hi"]


async def test_two_servers_that_both_start_a_run_start_it_once(tmp_path: Path, database_url: str) -> None:
    """One is so slow that its claim ends; what the second one stores is refused by the database."""
    async with start_app(tmp_path, database=SecretStr(database_url)) as server:
        quotas, row = server.turns.quotas, RunRow(id="r1", agent_id="a", version_id="v", session_id="s1", start_ms=1)
        await quotas.begin_turn("tenant", "", SessionRow(**_SESSION, id="s1"), row)
        again = RunRow(id="r1", agent_id="a", version_id="v", session_id="s2", start_ms=1)
        with pytest.raises(DatabaseError):
            await quotas.begin_turn("tenant", "", SessionRow(**_SESSION, id="s2"), again)
        assert [session.id for session in await sessions(server, "a")] == ["s1"]


_SESSION: dict[str, Any] = {"agent_id": "a", "version_id": "v", "create_ms": 1, "update_ms": 1}


async def test_refused_starts_are_shown_and_tried_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        time.ms += MINUTE_MS
        await start_due(runs)
        refuse = AsyncMock(side_effect=QuotaError("tokens_day", 1, "tenant", "Wait.", renews_s=60))
        monkeypatch.setattr(server.turns.quotas, "begin_turn", refuse)
        time.ms += MINUTE_MS
        await start_due(runs)
        row = await read(server, agent_id)
        assert ("tokens_day" in row.error, bool(row.last_run_id), row.due_ms) == (True, True, time.ms + MINUTE_MS)
        async with server.app_state.database.writing() as db:
            await db.execute(update(ScheduleRow).values(version="0" * 32, time_zone="Europe/Atlantis"))
        time.ms += MINUTE_MS
        await start_due(runs)
        assert "no time zone" in (await read(server, agent_id)).error
        assert await find_due_rows(server.app_state.database, ScheduleRow, time.ms + 10**12, 9) == []
        async with native(server, agent_id) as client:
            (shown,) = (await client.get("/schedules")).json()["schedules"]
        assert (shown["next_ms"], "no time zone" in shown["error"]) == ([], True)


async def test_a_full_server_tries_again_later(tmp_path: Path) -> None:
    async with scheduled(tmp_path, max_runs=1, max_waiting_runs=0, run_wait_s=0.0) as (server, agent_id, runs, time):
        release = await server.turns.acquire_slot("other")
        time.ms += MINUTE_MS
        await start_due(runs)
        row = await read(server, agent_id)
        assert (row.error, bool(row.run_id)) == ("", True)
        release()
        time.ms = row.due_ms
        await start_due(runs)
        assert (await read(server, agent_id)).last_run_id == row.run_id


async def test_schedules_of_a_deleted_agent_go(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, _, runs, _):
        orphan = schedule("s9", "gone", due_ms=START_MS)
        await ScheduleRepository(server.app_state.database, server.tenant).add(orphan)
        await start_due(runs)
        assert await ScheduleRepository(server.app_state.database, server.tenant).list("gone", 1, 9) == []


async def test_a_server_that_stops_starts_nothing(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, runs, time):
        time.ms += MINUTE_MS
        await server.turns.playing.drain()
        assert await runs.look() is False
        assert (await read(server, agent_id)).run_id == ""


async def test_a_running_server_looks_by_itself(tmp_path: Path) -> None:
    async with scheduled(tmp_path) as (server, agent_id, _, time):
        async with server.app_state.database.writing() as db:
            await db.execute(update(ScheduleRow).values(due_ms=0))
        async with looking_for_due_rows(ScheduleStarts(server.app_state, server.turns)), asyncio.timeout(10):
            while not (await read(server, agent_id)).last_run_id:
                await asyncio.sleep(0.01)
        assert time.ms == START_MS
