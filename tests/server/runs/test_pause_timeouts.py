"""Forms that nobody answers, on servers that share a database. The clock is a function."""

import asyncio
import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from ragflow_lg.base.errors import QuotaError, StreamError
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.database.due_rows import change_due_row, find_due_rows
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import PauseTimeoutRow, RunRow
from ragflow_lg.server.runs.pause_timeouts import CANCELLED, NO_DEFAULT, PauseTimeouts
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.settings.limits_section import PausesSection
from tests.server.http.app_server import AppServer, canvas, start_app
from tests.server.http.native.native_client import native, problem
from tests.server.runs.test_run_control import create_agent, start_server
from tests.server.runs.test_schedule_runs import CLAIMED_MS, Time, start_due

TIMEOUT_S = 3600
DEFAULTS: dict[str, Any] = {
    "size": {"name": "Size", "type": "integer", "value": 42},
    "color": {"name": "Color", "type": "line", "optional": True, "value": None},
}


def form(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a canvas that asks the same form twice."""
    return canvas(
        ("begin", "Begin", {}, ["UserFillUp:0"]),
        ("UserFillUp:0", "UserFillUp", {"inputs": fields}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["Size {UserFillUp:0@size}. "]}, ["UserFillUp:1"]),
        ("UserFillUp:1", "UserFillUp", {"inputs": fields}, ["Message:1"]),
        ("Message:1", "Message", {"content": ["Then {UserFillUp:1@size}"]}, []),
    )


@asynccontextmanager
async def waiting(
    folder: Path, fields: dict[str, Any] = DEFAULTS, timeout_s: int = TIMEOUT_S, answer: Any = "defaults"
) -> AsyncGenerator[tuple[AppServer, httpx.AsyncClient, dict[str, Any], Time]]:
    """Start a server with a run that waits; yield the server, a client of the agent, the run and the time."""
    sections = {"pauses": PausesSection(timeout_s=timeout_s, answer=answer)}
    async with start_app(folder, sections=sections) as server:
        time = Time()
        time.ms = server.app_state.now_ms()
        async with native(server, await server.agent(form(fields))) as client:
            run = (await client.post("/runs", json={"query": "hi"})).json()
            assert run["status"] == "waiting", run
            yield server, client, run, time


async def end_pauses(server: AppServer, time: Time) -> None:
    await start_due(PauseTimeouts(server.app_state, server.turns, time))


async def runs_of(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return the runs of an agent, oldest first, once none is running."""
    async with asyncio.timeout(10):
        rows = (await client.get("/runs")).json()["runs"]
        while any(row["status"] == "running" for row in rows):
            await asyncio.sleep(0.01)
            rows = (await client.get("/runs")).json()["runs"]
    return [(await client.get(f"/runs/{row['id']}")).json() for row in reversed(rows)]


def expire_ms(run: dict[str, Any]) -> int:
    (pause,) = run["pauses"]
    return pause["expire_ms"]


async def test_forms_that_nobody_answers_get_the_values_of_their_fields(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        expires = expire_ms(run)
        assert 0 <= expires - TIMEOUT_S * 1000 - run["end_ms"] < 1000
        for path in (f"/sessions/{run['session_id']}", f"/sessions/{run['session_id']}/pauses"):
            shown: Any = (await client.get(path)).json()
            pause: Any = (shown if path.endswith("/pauses") else shown["pauses"])[0]
            assert (pause["expire_ms"], pause["expire_answer"]) == (expires, "defaults")
        time.ms = expires - 1
        await end_pauses(server, time)
        assert await runs_of(client) == [run]
        time.ms = expires
        await end_pauses(server, time)
        first, second = await runs_of(client)
        assert (first["status"], first["error"]) == ("answered", "")
        assert (second["status"], second["answer"], second["parent_run_id"]) == ("waiting", "Size 42. ", run["id"])
        assert expire_ms(second) > time.ms - 60_000  # the next form has its own time
        await end_pauses(server, time)
        time.ms = expire_ms(second)
        await end_pauses(server, time)
        last = (await runs_of(client))[2]
        assert (last["status"], last["answer"]) == ("succeeded", "Then 42")
        refused = await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})
        assert problem(refused) == (409, "run-not-last")
        assert "its time has passed" in refused.json()["error"]["message"]


REQUIRED: dict[str, Any] = {"size": {"name": "Size", "type": "integer"}}


@pytest.mark.parametrize(
    ("answer", "fields", "reason"),
    [
        ("cancel", DEFAULTS, ""),
        ("defaults", REQUIRED, "'Size' (size) is required."),
        ("defaults", {"size": {"value": "x"} | REQUIRED["size"]}, "'Size' (size) should be a whole number"),
    ],
)
async def test_turns_are_cancelled_if_the_settings_say_so_or_there_is_no_valid_default(
    tmp_path: Path, answer: str, fields: dict[str, Any], reason: str
) -> None:
    async with waiting(tmp_path, fields, answer=answer) as (server, client, run, time):
        time.ms = expire_ms(run)
        assert run["pauses"][0]["expire_answer"] == "cancel"
        await end_pauses(server, time)
        (ended,) = await runs_of(client)
        assert (ended["status"], ended["pauses"]) == ("cancelled", [])
        assert ended["error"] == CANCELLED if not reason else ended["error"].startswith(NO_DEFAULT + reason)
        refused = await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})
        assert problem(refused) == (409, "run-not-waiting")
        more = await client.post("/runs", json={"query": "again", "session_id": run["session_id"]})
        assert more.json()["status"] == "waiting"


async def test_an_agent_has_its_own_time_and_a_form_keeps_it(tmp_path: Path) -> None:
    async with waiting(tmp_path, timeout_s=0) as (server, client, run, time):
        assert (expire_ms(run), run["pauses"][0]["expire_answer"]) == (0, "")
        assert (await client.put("/pause-timeout", json={"timeout_s": 5, "answer": "cancel"})).status_code == 200
        short = (await client.post("/runs", json={"query": "hi"})).json()
        assert 0 <= expire_ms(short) - short["end_ms"] - 5000 < 1000
        time.ms += 10**12
        await end_pauses(server, time)
        assert [each["status"] for each in await runs_of(client)] == ["waiting", "cancelled"]


async def test_answers_of_clients_count(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        done = (await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})).json()
        done = (await client.post(f"/runs/{done['id']}/resume", json={"fields": {"size": 2}})).json()
        assert done["answer"] == "Then 2"
        time.ms = expire_ms(run) + 10**9
        await end_pauses(server, time)
        assert len(await runs_of(client)) == 3
        assert await find_due_rows(server.app_state.database, PauseTimeoutRow, time.ms + 10**9, 9) == []


async def test_a_quota_that_is_used_up_only_delays_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        with monkeypatch.context() as patched:
            refuse = AsyncMock(side_effect=QuotaError("tokens_day", 1, "tenant", "Wait.", renews_s=60))
            patched.setattr(server.turns.quotas, "begin_turn", refuse)
            await end_pauses(server, time)
        assert await runs_of(client) == [run]
        time.ms += CLAIMED_MS
        await end_pauses(server, time)
        assert (await client.get(f"/runs/{run['id']}")).json()["status"] == "answered"


async def test_an_answer_that_waits_in_the_queue_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        queued = RunRow(id="f" * 32, agent_id=run["agent_id"], version_id="v", session_id=run["session_id"])
        queued.start_ms = time.ms
        await RunRepository(server.app_state.database, server.tenant).add(queued)
        monkeypatch.setattr(server.turns.playing, "is_played", AsyncMock(return_value=True))
        await end_pauses(server, time)
        assert (await client.get(f"/runs/{run['id']}")).json()["status"] == "waiting"
        monkeypatch.undo()  # it has been withdrawn
        time.ms += CLAIMED_MS
        await end_pauses(server, time)
        assert (await client.get(f"/runs/{run['id']}")).json()["status"] == "answered"


async def test_one_of_two_answers_at_the_same_moment_counts(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        resume = client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})
        answer, *_ = await asyncio.gather(resume, end_pauses(server, time), end_pauses(server, time))
        runs = await runs_of(client)
        assert [each["status"] for each in runs if each["status"] != "refused"] == ["answered", "waiting"]
        if answer.status_code == 200:
            assert answer.json()["answer"] == "Size 1. "
        else:
            assert problem(answer) in [(409, "run-not-last"), (409, "session-busy"), (422, "answer-invalid")]


@pytest.mark.parametrize("first", ["resume", "cancel"])
async def test_a_form_ended_by_a_client_has_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        resume = RunControl.resume

        async def resume_later(self: RunControl, row: RunRow, answers: Any) -> Any:
            monkeypatch.undo()
            await client.post(f"/runs/{run['id']}/{first}", json={"fields": {"size": 1}} if first == "resume" else {})
            return await resume(self, row, answers)

        monkeypatch.setattr(RunControl, "resume", resume_later)
        await end_pauses(server, time)
        (ended, *more) = await runs_of(client)
        answers = ["Size 1. "] if first == "resume" else list[str]()
        assert [each["answer"] for each in more] == answers
        assert (ended["status"], ended["error"]) == ("answered" if first == "resume" else "cancelled", "")


async def test_a_second_answer_does_not_answer_the_next_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        find_pauses = Runner.pauses

        async def find_pauses_later(self: Runner, session_id: str) -> Any:
            monkeypatch.undo()
            await end_pauses(server, time)
            return await find_pauses(self, session_id)

        monkeypatch.setattr(Runner, "pauses", find_pauses_later)
        assert problem(await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}}))[0] == 409
        runs = await runs_of(client)
        assert [each["status"] for each in runs if each["status"] != "refused"] == ["answered", "waiting"]


async def test_a_dead_server_is_replaced_and_forms_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting(tmp_path) as (server, client, run, time):
        time.ms = expire_ms(run)
        database = server.app_state.database
        (row,) = await find_due_rows(database, PauseTimeoutRow, time.ms, 9)
        assert await change_due_row(database, row, due_ms=time.ms + CLAIMED_MS)  # and it dies
        await end_pauses(server, time)
        assert await runs_of(client) == [run]
        time.ms += CLAIMED_MS

        async def fail(self: RunControl, *_: Any) -> None:
            raise StreamError("The queue of runs failed.")

        with monkeypatch.context() as patched:
            patched.setattr(RunControl, "resume", fail)
            await end_pauses(server, time)
        assert await runs_of(client) == [run]
        time.ms += CLAIMED_MS
        await end_pauses(server, time)
        assert [each["status"] for each in await runs_of(client)] == ["answered", "waiting"]


async def test_the_command_starts_what_is_due_and_answers_forms_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "ragflow-lg.toml").write_text("[pauses]\ntimeout_s = 3600\n")
    async with start_server(tmp_path) as server:
        agent = f"/native/v1/agents/{await create_agent(server, form(DEFAULTS))}"
        async with server.client(agent) as client:
            run = (await client.post("/runs", json={"query": "hi"})).json()
            made = await client.post("/schedules", json={"cron": "0 0 1 1 *", "query": "Hi"})
            assert made.status_code == 201, made.text
        await server.end(signal.SIGKILL)
    with sqlite3.connect(tmp_path / "ragflow-lg-server.db") as raw:
        for table in ("pause_timeouts", "schedules"):
            raw.execute(f"UPDATE {table} SET due_ms = 0")
    async with start_server(tmp_path, server.key) as again, again.client(agent) as client, asyncio.timeout(30):
        while (await client.get("/runs")).json()["total"] < 3:
            await asyncio.sleep(0.05)
        runs = await runs_of(client)
        mine = [each["answer"] for each in runs if each["session_id"] == run["session_id"]]
        assert (mine, len(runs)) == (["", "Size 42. "], 3)
