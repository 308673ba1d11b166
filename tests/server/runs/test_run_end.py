from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.runs.wire.answer_text import AnswerText
from ragflow_lg.runs.wire.wire_events import Envelope, Message, MessageEnd
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.stored_reference import read_reference
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.runs.continuation import EndedRun
from ragflow_lg.server.runs.run_end import Ending
from ragflow_lg.server.runs.turn_session import TurnSession
from ragflow_lg.server.streaming.new_run import NewRun
from tests.server.http.app_server import ECHO, start_app


def new_run(run: Any, question: str | None) -> NewRun:
    return NewRun(run.envelope, "tenant", "agent", question=question, start_ms=1)


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
        turn = await server.turns.play(agent, TurnSession(session), runner.continue_(session.id), None)
        with pytest.raises(ConflictError):
            assert [event async for _, event in turn.events()]
        run = await RunRepository(server.app_state.database, "tenant").get(turn.envelope.message_id)
        assert run is not None
        assert run.status == "refused"
        turn = await server.turns.play(agent, TurnSession(session), runner.start(session.id, {"query": "hi"}), None)
        assert [event async for _, event in turn.events()]
        messages = (await sessions.messages([session.id]))[session.id]
        assert [(row.role, row.content) for row in messages[1:]] == [("assistant", "You said hi")]


async def test_a_run_that_begins_after_its_session_was_deleted_leaves_nothing_behind(tmp_path: Path) -> None:
    async with start_app(tmp_path, checkpoints=f"sqlite:///{tmp_path}/sessions.db", busy_s=30) as server:
        agent_id, store = await server.agent(ECHO), server.app_state.store
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = await sessions.get(await server.session(agent_id))
        assert agent is not None
        assert session is not None
        run = (await server.turns.runner(agent, session)).start(session.id, {"query": "hi"})
        lease = await store.leases.acquire(session.id, lambda: None)
        turn = await server.turns.play(agent, TurnSession(session), run, "hi")
        await sessions.delete(agent_id, session.id)
        await lease.release()
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert [record async for record in store.runs.of_session(session.id)] == []
        assert [key async for key in store.saver.list_keys(str(thread_of_session(session.id)))] == []


async def test_the_stored_answer_of_an_abandoned_run_has_the_sources_that_its_followers_received(
    tmp_path: Path,
) -> None:
    async with start_app(tmp_path) as server:
        answer = await server.ask(await server.agent(ECHO))
        run_id = answer["data"]["message_id"]
        head = await server.app_state.run_manager.head(run_id)
        collected = AnswerText()
        source: dict[str, Any] = {"id": "a", "content": "Text"}
        collected.feed(Message("Cut"))
        reference: dict[str, Any] = {"chunks": {"0": source}}
        collected.feed(MessageEnd({"reference": reference}))
        run = EndedRun(head.envelope, "failed", "3 servers died", collected, lease_token=2**60)
        ending = Ending(server.app_state, server.turns.quotas, run, new_run(run, "hi"), is_taken_over=True)
        await ending.store(has_begun=True, is_interrupted=False)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = head.envelope.session_id
        last = (await sessions.messages([session]))[session][-1]
        assert (last.content, read_reference(last.reference)["chunks"]) == ("Cut", {"0": source})
        row = await RunRepository(server.app_state.database, "tenant").get(run_id)
        assert row is not None
        assert row.status == "failed"


async def test_a_turn_is_stored_if_its_process_died_after_the_last_event(tmp_path: Path) -> None:
    """The process that takes it over has no event to send. It had stored nothing."""
    async with start_app(tmp_path) as server:
        agent_id, database = await server.agent(ECHO), server.app_state.database
        session = await server.session(agent_id)
        row = RunRow(id="r", agent_id=agent_id, version_id="", session_id=session, start_ms=1, asked="hi")
        await RunRepository(database, "tenant").add(row)
        run = EndedRun(Envelope("r", 1, session, session), "succeeded", "")
        replay: Any = SimpleNamespace(has_begun=True, answer="You said hi")
        place = (server.app_state, server.turns.quotas, run, new_run(run, "hi"))
        await Ending(*place, is_taken_over=True, replay=replay).store(has_begun=False, is_interrupted=False)
        messages = (await SessionRepository(database, "tenant").messages([session]))[session]
        assert [message.content for message in messages[1:]] == ["hi", "You said hi"]


async def test_a_run_that_was_stopped_by_force_is_not_stored_as_cancelled(tmp_path: Path) -> None:
    """Otherwise, the process that takes it over would end it."""
    async with start_app(tmp_path) as server:
        agent_id, database = await server.agent(ECHO), server.app_state.database
        session = await server.session(agent_id)
        for run_id, is_interrupted in (("stopped", True), ("cancelled", False)):
            row = RunRow(id=run_id, agent_id=agent_id, version_id="", session_id=session, start_ms=1)
            await RunRepository(database, "tenant").add(row)
            run = EndedRun(Envelope(run_id, 1, session, session), "cancelled", "")
            place = (server.app_state, server.turns.quotas, run, new_run(run, None), False)
            await Ending(*place).store(has_begun=True, is_interrupted=is_interrupted)
            stored = await RunRepository(database, "tenant").get(run_id)
            assert stored is not None
            assert stored.status == ("drained" if is_interrupted else "cancelled")
