from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError, RunError
from ragflow_lg.server.database.webhook_repository import find_agent
from ragflow_lg.server.http.webhooks.webhook_runs import TurnOutcome, begin_turn, follow_turn
from ragflow_lg.wire.wire_events import Message, MessageEnd
from tests.server.http.app_server import canvas, start_app


class FakeTurn:
    """A turn that gives events, and ends in some way."""

    def __init__(self, *given: Any, status: str = "succeeded", error: str = "", fails: str = "") -> None:
        self._given = given
        self._fails = fails
        self.run = type("Run", (), {"status": status, "error": error})()

    async def events(self) -> Any:
        for event in self._given:
            yield event
        if self._fails:
            raise RunError(self._fails)


async def played(*given: Any, **how: str) -> TurnOutcome:
    turn: Any = FakeTurn(*given, **how)
    return await follow_turn(turn)


async def test_all_texts_are_joined_with_their_tags() -> None:
    given = (Message("", start_to_think=True), Message("hm"), Message("", end_to_think=True), Message("Yes"))
    assert await played(*given) == TurnOutcome("<think>hm</think>Yes", 200)


@pytest.mark.parametrize(
    ("status", "expected"), [("404", 404), (201, 201), ("x", 200), (99, 200), (600, 200), (True, 200), (None, 200)]
)
async def test_the_last_status_of_a_message_counts(status: Any, expected: int) -> None:
    assert (await played(MessageEnd({"status": 302}), MessageEnd({"status": status}))).status in (expected, 302)
    assert (await played(MessageEnd({"status": status}))).status == expected


@pytest.mark.parametrize("how", ["failed", "waiting", "cancelled", "drained"])
async def test_a_turn_that_did_not_end_well_is_an_error(how: str) -> None:
    told = await played(Message("a"), status=how)
    assert (told.text, told.status, bool(told.error)) == ("a", 400, True)


async def test_an_engine_that_fails_is_an_error() -> None:
    assert await played(fails="It broke.") == TurnOutcome("", 400, "It broke.", "RunError")


async def test_a_canvas_that_cannot_run_leaves_no_session(tmp_path: Path) -> None:
    lost = canvas(("begin", "Begin", {}, ["Loop:0"]), ("Loop:0", "Loop", {"loop_variables": []}, []))
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(lost)
        agent = await find_agent(server.app_state.database, agent_id)
        assert agent is not None
        with pytest.raises(CompileError):
            await begin_turn(server.turns, agent, {})
        assert (await server.client.get(f"/agents/{agent_id}/sessions")).json()["total"] == 0
