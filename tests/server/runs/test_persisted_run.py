from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.runs.persisted_run import reference_chunks
from tests.server.http.app_server import ECHO, start_app


async def test_a_run_that_never_began_is_refused_and_one_without_a_question_adds_none(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = await sessions.get(await server.session(agent_id))
        assert agent is not None
        assert session is not None
        runner = await server.turns.runner(agent, session)
        refused = await server.turns.play(agent, session, runner.continue_(session.id), None)
        with pytest.raises(ConflictError):
            assert [event async for event in refused.events()]
        run = await RunRepository(server.app_state.database, "tenant").get(refused.run.envelope.message_id)
        assert run is not None
        assert run.status == "refused"
        played = await server.turns.play(agent, session, runner.start(session.id, {"query": "hi"}), None)
        assert [event async for event in played.events()]
        said = (await sessions.messages([session.id]))[session.id]
        assert [(row.role, row.content) for row in said[1:]] == [("assistant", "You said hi")]


ODD: list[Any] = [None, {}, {"chunks": []}]


def test_what_was_cited_is_put_for_people() -> None:
    assert reference_chunks({"chunks": {7: {"id": "c"}, 8: None}}) == [{"id": "c", "citation_id": "7"}]
    assert [reference_chunks(odd) for odd in ODD] == [[], [], []]
