import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.runs.turns import question_text
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, start_app


async def test_a_turn_is_stored_although_nobody_follows_it(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("Hello")]) as server:
        agent_id = await server.agent(MODEL)
        session_id = await server.session(agent_id)
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = await sessions.get(session_id)
        assert agent is not None
        assert session is not None
        turn = await server.turns.begin(agent, session, {"query": "hi"})
        while server.app_state.run_manager.running_count:
            await asyncio.sleep(0.001)
        assert [event.event async for event in turn.events()][-1] == "workflow_finished"
        messages = (await sessions.messages([session_id]))[session_id]
        assert [row.content for row in messages[-2:]] == ["hi", "Hello"]
        run = await RunRepository(server.app_state.database, "tenant").get(turn.envelope.message_id)
        assert run is not None
        assert (run.status, run.session_id, run.end_ms >= run.start_ms) == ("succeeded", session_id, True)


async def test_a_failing_database_does_not_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("It is full.")

    monkeypatch.setattr("ragflow_lg.server.runs.persisted_run.write_turn", fail)
    async with start_app(tmp_path) as server:
        assert (await server.ask(await server.agent(ECHO)))["data"]["data"]["content"] == "You said hello"


def test_the_question_is_the_query_or_the_fields_of_the_form() -> None:
    cases: list[tuple[TurnRequest, str]] = [
        ({"query": "hi", "inputs": {"a": 1}}, "hi"),
        ({"query": "", "inputs": {"a": {"value": 1}, "b": "x"}}, "a: 1\nb: x"),
        ({}, ""),
    ]
    assert [question_text(request) for request, _ in cases] == [text for _, text in cases]
