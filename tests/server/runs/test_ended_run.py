from pathlib import Path

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from tests.server.http.app_server import ECHO, start_app


async def test_a_refused_run_is_stored_as_such_and_a_run_without_question_adds_no_user_message(
    tmp_path: Path,
) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = await sessions.get(await server.session(agent_id))
        assert agent is not None
        assert session is not None
        runner = await server.turns.runner(agent, session)
        turn = await server.turns.play(agent, session, runner.continue_(session.id), None)
        with pytest.raises(ConflictError):
            assert [event async for _, event in turn.events()]
        run = await RunRepository(server.app_state.database, "tenant").get(turn.envelope.message_id)
        assert run is not None
        assert run.status == "refused"
        turn = await server.turns.play(agent, session, runner.start(session.id, {"query": "hi"}), None)
        assert [event async for _, event in turn.events()]
        messages = (await sessions.messages([session.id]))[session.id]
        assert [(row.role, row.content) for row in messages[1:]] == [("assistant", "You said hi")]
