import asyncio
import math
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import AgentRow, RunRow
from ragflow_lg.server.database.turn_writer import write_turn
from ragflow_lg.server.runs.playing import HANDOVER_S
from ragflow_lg.server.runs.turn_session import TurnSession, hash_request, question_text
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.server.streaming.journal import RunHead
from ragflow_lg.server.streaming.new_run import Owner
from ragflow_lg.server.streaming.run_queue import open_queue
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, start_app
from tests.stores import fresh_prefix


async def test_a_turn_is_stored_although_nobody_follows_it(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("Hello")]) as server:
        agent_id = await server.agent(MODEL)
        session_id = await server.session(agent_id)
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        sessions = SessionRepository(server.app_state.database, "tenant")
        session = await sessions.get(session_id)
        assert agent is not None
        assert session is not None
        turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
        while server.app_state.run_manager._tasks:
            await asyncio.sleep(0.001)
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        messages = (await sessions.messages([session_id]))[session_id]
        assert [row.content for row in messages[-2:]] == ["hi", "Hello"]
        run = await RunRepository(server.app_state.database, "tenant").get(turn.envelope.message_id)
        assert run is not None
        assert (run.status, run.session_id, run.end_ms >= run.start_ms) == ("succeeded", session_id, True)


async def test_what_the_settings_lack_is_logged_before_the_first_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_app(tmp_path, [Reply("Hello")]) as server:
        await server.ask(await server.agent({**MODEL, "not_compiled_before": 2}))
    (record,) = [r for r in caplog.records if "lack something" in r.message]
    assert record.message.startswith("agent ")
    assert "provider" in record.message


ANSWER: TurnRequest = {"query": "", "inputs": {"size": {"value": 3}}}


async def lose_run(server: AppServer, *, takes_answer: bool) -> tuple[AgentRow, TurnSession]:
    """Answer a form in a run that stops without any event; return the agent and the session."""
    database, manager = server.app_state.database, server.app_state.run_manager
    agent_id = await server.agent(FORM)
    session_id = (await server.ask(agent_id))["data"]["session_id"]
    agent = await AgentRepository(database, "tenant").get(agent_id)
    session = await SessionRepository(database, "tenant").get(session_id)
    assert agent is not None
    assert session is not None
    lost = RunRow(id="lost", agent_id=agent_id, version_id="", session_id=session_id)
    lost.start_ms = server.app_state.now_ms() + 1000
    await RunRepository(database, "tenant").add(lost)
    envelope = Envelope("lost", 1, session_id, session_id)
    await manager.journal.begin(RunHead(envelope, "gone", "tenant", "gone|1|1", hash_request(ANSWER)))
    if takes_answer:
        run = (await server.turns.runner(agent, session)).play(session_id, "start", ANSWER, envelope)
        run.drain()
        assert [event async for event in run] == []
        assert run.status == "drained"
    return agent, TurnSession(session)


async def test_a_request_is_begun_anew_if_its_run_stopped_before_the_first_event(tmp_path: Path) -> None:
    """The answer to the form was not stored: if the run were taken over, it would send the form again."""
    async with start_app(tmp_path) as server:
        turn = await server.turns.begin(*await lose_run(server, takes_answer=False), ANSWER)
        assert turn.envelope.message_id != "lost"
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_repeated_request_is_answered_by_its_run_until_a_client_has_had_the_end(
    tmp_path: Path, redis_url: str, is_shared: bool
) -> None:
    """The server of the client died. Meanwhile, others ended the run, which would have been played again."""
    options: dict[str, Any] = {"journal": SecretStr(redis_url)} if is_shared else {}
    async with start_app(tmp_path, sections={"checkpoint_prefix": fresh_prefix()}, **options) as server:
        agent_id, database = await server.agent(ECHO), server.app_state.database
        session = await SessionRepository(database, "tenant").get(await server.session(agent_id))
        agent = await AgentRepository(database, "tenant").get(agent_id)
        assert agent is not None
        assert session is not None
        runs: list[str] = []
        for _ in range(3):
            turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
            runs.append(turn.envelope.message_id)
            await server.app_state.run_manager.wait(runs[-1])
            if len(runs) == 2:
                assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert runs[0] == runs[1] != runs[2]


async def test_a_request_that_is_repeated_after_its_run_was_stopped_is_played_again(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("never", hangs=True), Reply("Hello")]) as server:
        agent_id, database = await server.agent(MODEL), server.app_state.database
        session = await SessionRepository(database, "tenant").get(await server.session(agent_id))
        agent = await AgentRepository(database, "tenant").get(agent_id)
        assert agent is not None
        assert session is not None
        stopped = (await server.turns.begin(agent, TurnSession(session), {"query": "hi"})).envelope.message_id
        while not server.model.requests:
            await asyncio.sleep(0.01)
        assert await server.turns.playing.cancel("tenant", stopped)
        assert await server.app_state.run_manager.wait(stopped) == "cancelled"
        turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert await turn.result() == ("succeeded", "")


async def test_the_question_of_a_run_that_was_lost_before_it_began_is_shown_once(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        session_id, database = await server.session(agent_id), server.app_state.database
        agent = await AgentRepository(database, "tenant").get(agent_id)
        session = await SessionRepository(database, "tenant").get(session_id)
        assert agent is not None
        assert session is not None
        for query in ("other", "hi"):
            lost = RunRow(id=query, agent_id=agent_id, version_id="", session_id=session_id, asked=query)
            lost.start_ms = server.app_state.now_ms() + 1
            await RunRepository(database, "tenant").add(lost)
            turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
            await server.app_state.run_manager.wait(turn.envelope.message_id)
        messages = await SessionRepository(database, "tenant").messages([session_id])
        texts = [message.content for message in messages[session_id]]
        assert texts.count("other") == 1, "nobody has repeated this one"
        assert texts.count("hi") == texts.count("You said hi") == 2


async def test_a_request_that_cannot_be_queued_leaves_no_run_behind_that_seems_to_run(
    tmp_path: Path, redis_url: str
) -> None:
    prefix = fresh_prefix()
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": prefix}, "journal": SecretStr(redis_url)}
    async with start_app(tmp_path, **options) as server, open_queue(redis_url, prefix=prefix) as queue:
        turns = Turns(replace(server.app_state, queue=queue))
        agent = await AgentRepository(server.app_state.database, "tenant").get(await server.agent(FORM))
        assert agent is not None
        session = await SessionRepository(server.app_state.database, "tenant").get(await server.session(agent.id))
        assert session is not None
        with pytest.raises(RequestError, match="cannot be queued"):
            await turns.begin(agent, TurnSession(session), {"query": "\ud83d"})
        run = await RunRepository(server.app_state.database, "tenant").newest(session.id)
        assert run is not None
        assert run.status == "refused"
        assert (await queue.state()).open == 0


async def test_a_place_in_the_queue_whose_client_leaves_at_once_is_free_again(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = fresh_prefix()
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": prefix}, "journal": SecretStr(redis_url)}
    async with start_app(tmp_path, **options) as server, open_queue(redis_url, prefix=prefix) as queue:
        turns, reserve = Turns(replace(server.app_state, queue=queue)), queue.reserve

        async def leave(*args: Any) -> None:
            await reserve(*args)
            raise asyncio.CancelledError

        agent = await AgentRepository(server.app_state.database, "tenant").get(await server.agent(ECHO))
        assert agent is not None
        session = await SessionRepository(server.app_state.database, "tenant").get(await server.session(agent.id))
        assert session is not None
        monkeypatch.setattr(queue, "reserve", leave)
        with pytest.raises(asyncio.CancelledError):
            await turns.begin(agent, TurnSession(session), {"query": "hi"})
        await reserve("next", [Owner("tenant", "tenant", 1)], server.app_state.now_ms())


async def test_a_server_that_stops_waits_for_models_if_nobody_continues_its_runs(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = AsyncMock()
    async with start_app(tmp_path, journal=SecretStr(redis_url)) as server:
        with monkeypatch.context() as patched:
            patched.setattr(server.app_state.run_manager, "drain", drain)
            for queue in (None, Mock()):
                await Turns(replace(server.app_state, queue=queue)).playing.drain()
    assert [call.kwargs["handover_s"] for call in drain.await_args_list] == [math.inf, HANDOVER_S]


async def test_a_failing_database_does_not_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("It is full.")

    monkeypatch.setattr("ragflow_lg.server.runs.run_end.write_turn", fail)
    monkeypatch.setattr("ragflow_lg.server.runs.run_end.PAUSES_S", (0.0, 0.0))
    async with start_app(tmp_path) as server:
        assert (await server.ask(await server.agent(ECHO)))["data"]["data"]["content"] == "You said hello"


async def test_a_turn_is_stored_when_its_database_has_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [DatabaseError("It cannot be reached.")] * 3

    async def fail_at_first(*arguments: Any, **options: Any) -> bool:
        stored = await write_turn(*arguments, **options)  # the first end is stored, but its answer is lost
        if failures:
            raise failures.pop()
        return stored

    monkeypatch.setattr("ragflow_lg.server.runs.run_end.write_turn", fail_at_first)
    monkeypatch.setattr("ragflow_lg.server.runs.run_end.PAUSES_S", (0.0,) * 3)
    async with start_app(tmp_path) as server:
        session_id = (await server.ask(await server.agent(ECHO)))["data"]["session_id"]
        sessions = SessionRepository(server.app_state.database, "tenant")
        messages = (await sessions.messages([session_id]))[session_id]
        assert [message.content for message in messages] == ["hello", "You said hello"]
        runs = RunRepository(server.app_state.database, "tenant")
        session, run = await sessions.get(session_id), await runs.newest(session_id)
        assert session is not None
        assert run is not None
        assert (session.rounds, run.status) == (1, "succeeded")


def test_the_question_is_the_query_or_the_fields_of_the_form() -> None:
    cases: list[tuple[TurnRequest, str]] = [
        ({"query": "hi", "inputs": {"a": 1}}, "hi"),
        ({"query": "", "inputs": {"a": {"value": 1}, "b": "x"}}, "a: 1\nb: x"),
        ({}, ""),
    ]
    assert [question_text(request) for request, _ in cases] == [text for _, text in cases]
