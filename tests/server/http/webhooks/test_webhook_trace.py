from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.webhook_repository import WebhookTests
from ragflow_lg.server.http.webhooks import webhook_trace as recording
from ragflow_lg.server.http.webhooks.webhook_trace import WebhookTestRecorder
from tests.fakes.services import FixedClock
from tests.server.database.rows import opened

PARTS = cast("Any", SimpleNamespace(services=SimpleNamespace(clock=FixedClock(5.0))))


async def events(tests: WebhookTests) -> list[Any]:
    return [json.loads(row.event) for row in await tests.events("t1", 0, 9999)]


async def test_events_have_a_time_each_and_come_to_an_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        tests = WebhookTests(database, "us", "a1")
        recorded = WebhookTestRecorder(PARTS, tests, "t1")
        await recorded.begin()
        await recorded.add({"event": "message", "data": {"content": "ü\ud800"}})
        await recorded.end(("It broke.", "RunError"))
        assert await events(tests) == [
            {"ts": 5.000001, "event": "message", "data": {"content": "ü?"}},
            {"ts": 5.000002, "event": "error", "message": "It broke.", "error_type": "RunError"},
            {"ts": 5.000003, "event": "finished", "elapsed_time": 0.0, "success": False},
        ]


async def test_what_is_too_much_is_left_out_but_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as database:
        monkeypatch.setattr(recording, "MAX_EVENTS", 2)
        tests = WebhookTests(database, "us", "a1")
        recorded = WebhookTestRecorder(PARTS, tests, "t1")
        await recorded.begin()
        for _ in range(9):
            await recorded.add({"event": "message"})
        await recorded.end()
        assert [event["event"] for event in await events(tests)] == ["message", "message", "finished"]


async def test_a_database_that_fails_harms_nothing() -> None:
    class Broken:
        async def begin(self, *_: object) -> None:
            raise DatabaseError("gone")

        add = begin

    recorded = WebhookTestRecorder(PARTS, cast("Any", Broken()), "t1")
    await recorded.begin()
    await recorded.add({"event": "message"})
    await recorded.end()
