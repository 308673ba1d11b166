from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock
from uuid import uuid4

import pytest

from ragflow_lg.base.errors import ConflictError, DatabaseError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.runs.wire.wire_events import AnswerText, Envelope, Message, MessageEnd
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.turn_writer import read_reference
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.continuation import EndedRun
from ragflow_lg.server.runs.run_end import Ending
from ragflow_lg.server.runs.turn_session import TurnSession
from ragflow_lg.server.streaming.new_run import NewRun
from tests.server.http.app_server import ECHO, AppServer, start_app


async def test_a_refused_run_is_stored_and_a_run_without_question_adds_no_user_message(server: AppServer) -> None:
    agent, session = await server.opened(ECHO)
    runner = await server.turns.runner(agent, session)
    turn = await server.turns.play(agent, TurnSession(session), runner.continue_(session.id), None)
    with pytest.raises(ConflictError):
        assert [event async for _, event in turn.events()]
    assert (await server.run_row(turn.envelope.message_id)).status == "refused"
    turn = await server.turns.play(agent, TurnSession(session), runner.start(session.id, {"query": "hi"}), None)
    assert [event async for _, event in turn.events()]
    assert await server.texts(session.id) == ["Hi there!", "You said hi"]


async def test_a_run_that_begins_after_its_session_was_deleted_leaves_nothing_behind(tmp_path: Path) -> None:
    async with start_app(tmp_path, checkpoints=f"sqlite:///{tmp_path}/sessions.db", busy_s=30) as server:
        (agent, session), store = await server.opened(ECHO), server.app_state.store
        run = (await server.turns.runner(agent, session)).start(session.id, {"query": "hi"})
        lease = await store.leases.acquire(session.id, lambda: None)
        turn = await server.turns.play(agent, TurnSession(session), run, "hi")
        await SessionRepository(server.app_state.database, "tenant").delete(agent.id, session.id)
        await lease.release()
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert [record async for record in store.runs.of_session(session.id)] == []
        assert [key async for key in store.saver.list_keys(str(thread_of_session(session.id)))] == []


async def test_the_answer_of_an_abandoned_run_has_the_sources_that_its_followers_received(server: AppServer) -> None:
    run_id = (await server.ask(await server.agent(ECHO)))["data"]["message_id"]
    envelope = (await server.app_state.run_manager.head(run_id)).envelope
    collected, source = AnswerText(), cast("Any", {"id": "a", "content": "Text"})
    collected.feed(Message("Cut"))
    collected.feed(MessageEnd({"reference": {"chunks": {"0": source}}}))
    run = EndedRun(envelope, "failed", "3 servers died", collected, lease_token=2**60)
    await end(server, run, "hi", is_taken_over=True).store(has_begun=True, is_interrupted=False)
    sessions = SessionRepository(server.app_state.database, server.tenant)
    last = (await sessions.messages([envelope.session_id]))[envelope.session_id][-1]
    assert (last.content, read_reference(last.reference)["chunks"]) == ("Cut", {"0": source})
    assert (await server.run_row(run_id)).status == "failed"


async def test_a_turn_is_stored_if_its_process_died_after_the_last_event(server: AppServer) -> None:
    """The process that takes it over has no event to send. It had stored nothing."""
    run = await begun(server, "succeeded")
    replay: Any = SimpleNamespace(has_begun=True, answer="You said hi")
    await end(server, run, "hi", is_taken_over=True, replay=replay).store(has_begun=False, is_interrupted=False)
    assert await server.texts(run.envelope.session_id) == ["Hi there!", "hi", "You said hi"]


async def test_a_run_that_was_stopped_by_force_is_not_stored_as_cancelled(server: AppServer) -> None:
    """Otherwise, the process that takes it over would end it."""
    for is_interrupted, status in ((True, "drained"), (False, "cancelled")):
        run = await begun(server, "cancelled")
        await end(server, run, None, is_taken_over=False).store(has_begun=True, is_interrupted=is_interrupted)
        assert (await server.run_row(run.envelope.message_id)).status == status


async def test_a_failing_database_does_not_fail_the_run(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    write, free_slot = AsyncMock(side_effect=DatabaseError("It is full.")), Mock()
    run = await begun(server, "succeeded")
    monkeypatch.setattr("ragflow_lg.server.runs.run_end.write_turn", write)
    monkeypatch.setattr("ragflow_lg.server.runs.run_end.PAUSES_S", (0.0, 0.0))
    assert (await server.ask(await server.agent(ECHO)))["data"]["data"]["content"] == "You said hello"
    await end(server, run, "hi", is_taken_over=False, free_slot=free_slot).store(has_begun=True, is_interrupted=False)
    free_slot.assert_called_once_with()
    assert write.await_count == 6


def end(server: AppServer, run: EndedRun, question: str | None, **options: Any) -> Ending:
    new = NewRun(run.envelope, server.tenant, "agent", question=question, start_ms=1)
    return Ending(server.app_state, Operations(server.app_state.settings.server).metrics, run, new, **options)


async def begun(server: AppServer, status: Any) -> EndedRun:
    """Return the end of a run of which only the row is stored."""
    agent, session = await server.opened(ECHO)
    row = RunRow(id=uuid4().hex, agent_id=agent.id, version_id="", session_id=session.id, start_ms=1, asked="hi")
    await RunRepository(server.app_state.database, server.tenant).add(row)
    return EndedRun(Envelope(row.id, 1, session.id, session.id), status, "")
