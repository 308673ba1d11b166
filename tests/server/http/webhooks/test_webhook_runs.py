import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import DatabaseError, RunError
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.webhook_repository import WebhookTests
from ragflow_lg.server.http.webhooks import webhook_runs
from ragflow_lg.server.http.webhooks.webhook_runs import (
    TRIM_INTERVAL,
    WebhookOutcome,
    WebhookTestRecorder,
    follow_turn,
    trim_sessions,
)
from tests.fakes.services import FixedClock
from tests.harness.rows import each_row
from tests.server.http.app_server import AppServer, says, start_app
from tests.server.waiting import wait_while

HOOK = says("Hi", {"mode": "Webhook", "security": {"allow_anonymous": True}})
PARTS = cast("Any", SimpleNamespace(services=SimpleNamespace(clock=FixedClock(5.0))))


class FakeTurn:
    """A turn with the given events and end."""

    def __init__(self, *events: Any, status: str = "succeeded", error: str = "", fails: str = "") -> None:
        self._events = events
        self._fails = fails
        self._end = status, error

    async def result(self) -> tuple[str, str]:
        return self._end

    async def events(self) -> Any:
        for pair in enumerate(self._events, 1):
            yield pair
        if self._fails:
            raise RunError(self._fails)


async def run(*events: Any, **how: str) -> WebhookOutcome:
    turn: Any = FakeTurn(*events, **how)
    return await follow_turn(turn)


async def test_texts_are_joined_with_thinking_tags() -> None:
    messages = (Message("", start_to_think=True), Message("hm"), Message("", end_to_think=True), Message("Yes"))
    assert await run(*messages) == WebhookOutcome("<think>hm</think>Yes", 200)


@each_row(
    ("status", "expected"), [("404", 404), (201, 201), ("x", 200), (99, 200), (600, 200), (True, 200), (None, 200)]
)
async def test_the_last_valid_status_of_a_message_is_used(status: Any, expected: int) -> None:
    assert (await run(MessageEnd({"status": 302}), MessageEnd({"status": status}))).status in (expected, 302)
    assert (await run(MessageEnd({"status": status}))).status == expected


@pytest.mark.parametrize("status", ["failed", "waiting", "cancelled", "drained"])
async def test_a_turn_that_does_not_succeed_is_an_error(status: str) -> None:
    outcome = await run(Message("a"), status=status)
    assert (outcome.text, outcome.status, bool(outcome.error)) == ("a", 400, True)


async def list_sessions(server: AppServer, agent_id: str) -> list[Any]:
    return (await server.get(f"/agents/{agent_id}/sessions"))["data"]


async def test_only_the_oldest_sessions_of_webhooks_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_runs, "MAX_SESSIONS", 2)
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(HOOK)
        mine = await server.session(agent_id, name="webhook")
        for _ in range(TRIM_INTERVAL):
            assert (await server.client.post(f"/agents/{agent_id}/webhook", json={})).status_code == 200
        async with asyncio.timeout(10):
            while len(rows := await list_sessions(server, agent_id)) > 3 or server.running:
                await asyncio.sleep(0.01)
        assert {row["source"] for row in rows if row["id"] != mine} == {"webhook"}
        assert mine in {row["id"] for row in rows}


async def test_sessions_with_a_run_in_progress_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(HOOK)
        for _ in range(3):
            await server.client.post(f"/agents/{agent_id}/webhook", json={})
        await wait_while(lambda: server.running)
        oldest = (await list_sessions(server, agent_id))[-1]["id"]
        agent = await server.agent_row(agent_id)
        await trim_sessions(server.app_state, agent, 1)
        assert len(await list_sessions(server, agent_id)) == 3
        monkeypatch.setattr(webhook_runs, "MAX_SESSIONS", 1)
        lease = await server.app_state.store.leases.acquire(oldest, lambda: None)
        await trim_sessions(server.app_state, agent, 1)
        assert oldest in {row["id"] for row in await list_sessions(server, agent_id)}
        assert len(await list_sessions(server, agent_id)) == 2
        await lease.release()


async def read_events(tests: WebhookTests) -> list[Any]:
    return [json.loads(row.event) for row in await tests.events("t1", 0, 9999)]


async def test_events_are_recorded_with_distinct_times_and_an_end(database_url: str) -> None:
    async with open_database(database_url) as database:
        tests = WebhookTests(database, "us", "a1")
        recorder = WebhookTestRecorder(PARTS, tests, "t1")
        await recorder.begin()
        await recorder.add({"event": "message", "data": {"content": "ü\ud800"}})
        await recorder.end(("It broke.", "RunError"))
        assert await read_events(tests) == [
            {"ts": 5.000001, "event": "message", "data": {"content": "ü\ud800"}},
            {"ts": 5.000002, "event": "error", "message": "It broke.", "error_type": "RunError"},
            {"ts": 5.000003, "event": "finished", "elapsed_time": 0.0, "success": False},
        ]


async def test_events_beyond_the_limit_are_dropped_except_the_end(database_url: str) -> None:
    async with open_database(database_url) as database:
        tests = WebhookTests(database, "us", "a1")
        recorder = WebhookTestRecorder(PARTS, tests, "t1", max_events=2)
        await recorder.begin()
        for _ in range(9):
            await recorder.add({"event": "message"})
        await recorder.end()
        assert [event["event"] for event in await read_events(tests)] == ["message", "message", "finished"]


async def test_database_errors_of_the_recorder_are_not_raised() -> None:
    class Broken:
        async def begin(self, *_: object) -> None:
            raise DatabaseError("gone")

        add_events = begin

    recorder = WebhookTestRecorder(PARTS, cast("Any", Broken()), "t1")
    await recorder.begin()
    await recorder.add({"event": "message"})
    await recorder.end()
