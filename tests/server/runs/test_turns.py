import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import AgentRow, RunRow
from ragflow_lg.server.database.turn_writer import write_turn
from ragflow_lg.server.runs.playing import HANDOVER_S
from ragflow_lg.server.runs.turn_session import TurnSession, hash_request
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.server.streaming.journal import RunHead
from ragflow_lg.server.streaming.new_run import Owner
from ragflow_lg.server.streaming.run_queue import RunQueue, open_queue
from ragflow_lg.services.encryption import EncryptionKey
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, start_app
from tests.server.waiting import wait_while
from tests.stores import fresh_prefix


async def test_a_turn_is_stored_although_nobody_follows_it(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("Hello")]) as server:
        agent, session = await server.opened(MODEL)
        turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
        await wait_while(lambda: server.running)
        assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert (await server.texts(session.id))[1:] == ["hi", "Hello"]
        run = await server.run_row(turn.envelope.message_id)
        assert (run.status, run.session_id, run.end_ms >= run.start_ms) == ("succeeded", session.id, True)


async def test_what_a_canvas_lacks_is_logged_at_once(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    server.model.replies += [Reply("Hello")]
    await server.ask(await server.agent({**MODEL, "not_compiled_before": 2}))
    (record,) = [r for r in caplog.records if "needs is missing" in r.message]
    assert record.message.startswith("agent ")
    assert "provider" in record.message


ANSWER: TurnRequest = {"query": "", "inputs": {"size": {"value": 3}}}


async def lose_run(server: AppServer) -> tuple[AgentRow, TurnSession]:
    """Answer a form in a run that stops without any event; return the agent and the session."""
    agent, database = await server.agent_row(await server.agent(FORM)), server.app_state.database
    session = await server.session_row((await server.ask(agent.id))["data"]["session_id"])
    lost = RunRow(id="lost", agent_id=agent.id, version_id="", session_id=session.id)
    lost.start_ms, lost.request_hash = server.app_state.now_ms() + 1000, hash_request(ANSWER)
    await RunRepository(database, server.tenant).add(lost)
    head = RunHead(Envelope("lost", 1, session.id, session.id), "gone", server.tenant, "gone|1|1")
    await server.app_state.run_manager.journal.begin(head)
    return agent, TurnSession(session)


async def test_a_request_is_begun_anew_if_its_run_stopped_before_the_first_event(server: AppServer) -> None:
    """The answer to the form was not stored: if the run were taken over, it would send the form again."""
    turn = await server.turns.begin(*await lose_run(server), ANSWER)
    assert turn.envelope.message_id != "lost"
    assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_repeated_request_is_answered_by_its_run_until_a_client_has_had_the_end(
    tmp_path: Path, redis_url: str, is_shared: bool
) -> None:
    """The server of the client died. Meanwhile, others ended the run, which would have been played again."""
    options: dict[str, Any] = {"journal": SecretStr(redis_url)} if is_shared else {}
    async with start_app(tmp_path, sections={"checkpoint_prefix": fresh_prefix()}, **options) as server:
        (agent, session), runs = await server.opened(ECHO), list[str]()
        for _ in range(3):
            turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
            runs.append(turn.envelope.message_id)
            await server.app_state.run_manager.wait(runs[-1])
            if len(runs) == 2:
                assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
        assert runs[0] == runs[1] != runs[2]


OLD, NEW = EncryptionKey("2026", b"a" * 32), EncryptionKey("2027", b"b" * 32)


@pytest.mark.parametrize(("before", "after"), [([], []), ([], [OLD]), ([OLD], [NEW, OLD])])
async def test_a_repeated_request_is_found_after_a_change_of_keys(
    server: AppServer, before: list[EncryptionKey], after: list[EncryptionKey]
) -> None:
    """Also one with an ``Idempotency-Key``, by this key and by its text."""
    store = server.app_state.store
    first, second = (
        Turns(replace(server.app_state, store=replace(store, keys=make_key_ring(keys)))) for keys in (before, after)
    )
    notes = RequestNotes(request_key="key", request_hash="0" * 64)
    for kept in (notes, RequestNotes()):
        agent, session = await server.opened(ECHO)
        with use_notes(kept):
            run_id = (await first.begin(agent, TurnSession(session), {"query": "hi"})).envelope.message_id
        await server.app_state.run_manager.wait(run_id)
        for repeated in (kept, RequestNotes()):
            with use_notes(repeated):
                turn = await second.begin(agent, TurnSession(session), {"query": "hi"})
            assert turn.envelope.message_id == run_id
    with (
        use_notes(RequestNotes(request_key="key", request_hash="1" * 64)),
        pytest.raises(RequestError, match="Another"),
    ):
        await second.begin(agent, TurnSession(session), {"query": "hi"})


async def test_a_request_that_is_repeated_after_its_run_was_stopped_is_played_again(server: AppServer) -> None:
    server.model.replies += [Reply("never", hangs=True), Reply("Hello")]
    agent, session = await server.opened(MODEL)
    stopped = (await server.turns.begin(agent, TurnSession(session), {"query": "hi"})).envelope.message_id
    await wait_while(lambda: not server.model.requests)
    assert await server.turns.playing.cancel(server.tenant, stopped)
    assert await server.app_state.run_manager.wait(stopped) == "cancelled"
    turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
    assert [event.event async for _, event in turn.events()][-1] == "workflow_finished"
    assert await turn.result() == ("succeeded", "")


async def test_the_question_of_a_run_that_was_lost_before_it_began_is_shown_once(server: AppServer) -> None:
    agent, session = await server.opened(ECHO)
    for query in ("other", "hi"):
        lost = RunRow(id=query, agent_id=agent.id, version_id="", session_id=session.id, asked=query)
        lost.start_ms = server.app_state.now_ms() + 1
        await RunRepository(server.app_state.database, server.tenant).add(lost)
        turn = await server.turns.begin(agent, TurnSession(session), {"query": "hi"})
        await server.app_state.run_manager.wait(turn.envelope.message_id)
    texts = await server.texts(session.id)
    assert texts.count("other") == 1, "nobody has repeated this one"
    assert texts.count("hi") == texts.count("You said hi") == 2


async def test_a_request_that_cannot_be_queued_leaves_no_running_run(tmp_path: Path, redis_url: str) -> None:
    async with queueing(tmp_path, redis_url) as (server, queue, turns):
        agent, session = await server.opened(FORM)
        with pytest.raises(RequestError, match="cannot be queued"):
            await turns.begin(agent, TurnSession(session), {"query": "\ud83d"})
        run = await RunRepository(server.app_state.database, "tenant").newest(session.id)
        assert run is not None
        assert (run.status, (await queue.state()).open) == ("refused", 0)


async def test_a_place_in_the_queue_whose_client_leaves_at_once_is_free_again(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with queueing(tmp_path, redis_url) as (server, queue, turns):
        reserve = queue.reserve

        async def leave(*args: Any) -> None:
            await reserve(*args)
            raise asyncio.CancelledError

        agent, session = await server.opened(ECHO)
        monkeypatch.setattr(queue, "reserve", leave)
        with pytest.raises(asyncio.CancelledError):
            await turns.begin(agent, TurnSession(session), {"query": "hi"})
        await reserve("next", [Owner("tenant", "tenant", 1)], server.app_state.now_ms())


async def test_a_server_that_stops_waits_for_models_if_nobody_continues_its_runs(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = AsyncMock()
    with monkeypatch.context() as patched:
        patched.setattr(server.app_state.run_manager, "drain", drain)
        for queue in (None, Mock()):
            await Turns(replace(server.app_state, queue=queue)).playing.drain()
    assert [call.kwargs["handover_s"] for call in drain.await_args_list] == [math.inf, HANDOVER_S]


async def test_a_turn_is_stored_after_a_restart_of_the_database(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [DatabaseError("It cannot be reached.")] * 3

    async def fail_at_first(*arguments: Any, **options: Any) -> bool:
        stored = await write_turn(*arguments, **options)  # the first end is stored, but its answer is lost
        if failures:
            raise failures.pop()
        return stored

    monkeypatch.setattr("ragflow_lg.server.runs.run_end.write_turn", fail_at_first)
    monkeypatch.setattr("ragflow_lg.server.runs.run_end.PAUSES_S", (0.0,) * 3)
    data = (await server.ask(await server.agent(ECHO)))["data"]
    session, run = await server.session_row(data["session_id"]), await server.run_row(data["message_id"])
    assert (await server.texts(session.id), session.rounds, run.status) == (["hello", "You said hello"], 1, "succeeded")


@asynccontextmanager
async def queueing(folder: Path, redis_url: str) -> AsyncGenerator[tuple[AppServer, RunQueue, Turns]]:
    prefix = fresh_prefix()
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": prefix}, "journal": SecretStr(redis_url)}
    async with start_app(folder, **options) as server, open_queue(redis_url, prefix=prefix) as queue:
        yield server, queue, Turns(replace(server.app_state, queue=queue))
