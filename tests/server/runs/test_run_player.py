"""Runs that a worker cannot play. How they are played is tested with processes, in `test_run_worker`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from msgspec import structs
from pydantic import SecretStr
from redis.asyncio import Redis

from ragflow_lg.base.errors import CompileError, SessionBusyError, StreamAbandonedError, StreamError
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.wire.wire_events import Envelope, Message, WorkflowStarted
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.runs import run_player, run_worker
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.runs.run_player import RunPlayer
from ragflow_lg.server.runs.run_worker import QueueWorker
from ragflow_lg.server.streaming.event_codec import encode_entry
from ragflow_lg.server.streaming.journal import QUEUED, RunHead
from ragflow_lg.server.streaming.new_run import NewRun, Owner, decode_run, encode_run
from ragflow_lg.server.streaming.run_queue import open_queue
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import RunRecord
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.server.replicas import TWO_MESSAGES
from tests.server.waiting import wait_while
from tests.stores import fresh_prefix

RUN = "f" * 32
Queued = tuple[AppServer, "Line", RunPlayer]


class Line:
    """The queue with one run."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes | None = data
        self.freed: list[Owner] = []

    async def read(self, run_id: str) -> bytes | None:
        return self.data

    async def has(self, run_id: str) -> bool:
        return self.data is not None

    async def forget(self, run_id: str, owners: Sequence[Owner]) -> None:
        self.data, self.freed = None, [*owners]


class Dying(Line):
    """The queue of a process that dies before it removes a run."""

    async def forget(self, run_id: str, owners: Any) -> None:
        raise StreamError("The process has died.")


@pytest.fixture
async def queued(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Queued]:
    """Start a server whose database and journal contain a run that waits in the queue."""
    monkeypatch.setattr(run_player, "PAUSE_S", 0.0)
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": fresh_prefix()}, "journal": SecretStr(redis_url)}
    async with start_app(tmp_path, checkpoints=f"sqlite:///{tmp_path}/sessions.db", **options) as server:
        line: Any = await order(server, ECHO)
        yield server, line, RunPlayer(server.app_state, server.turns, line)


def await_orders(server: AppServer, queue: Any) -> None:
    """Put runs of the server into a queue."""
    manager: Any = server.app_state.run_manager
    server.turns.playing._queue = manager._queue = queue


async def order(server: AppServer, dsl: dict[str, Any]) -> Line:
    """Store a run that waits in a queue; return the queue."""
    agent, session = await server.opened(dsl)
    envelope = Envelope(RUN, 1, session.id, session.id)
    row = RunRow(id=RUN, agent_id=agent.id, version_id="v", session_id=session.id, start_ms=1, asked="hi")
    row.page_key = "page"
    await RunRepository(server.app_state.database, "tenant").add(row)
    await server.app_state.run_manager.order(envelope, "tenant")
    line: Any = Line(encode_run(NewRun(envelope, "tenant", agent.id, "start", {"query": "hi"})))
    await_orders(server, line)
    return line


async def stored(server: AppServer) -> tuple[str, str]:
    row = await server.run_row(RUN)
    return row.status, row.error


@pytest.mark.parametrize("lost", ["", "head", "head, and the queue is unreadable"])
async def test_a_cancelled_run_has_ended_although_it_never_leaves_the_queue(queued: Queued, lost: str) -> None:
    """It had left the queue first: its followers waited for a worker, and the run seemed to be interrupted."""
    server, line, player = queued
    server.turns.playing._queue = cast("Any", Dying(b""))
    if lost:
        journal: Any = server.app_state.run_manager.journal
        await journal._client.delete(journal._head_key(RUN))
    data = line.data
    if "queue" in lost:
        line.data = b"other"
    with pytest.raises(StreamError, match="died"):
        await server.turns.playing.cancel("tenant", RUN)
    server.turns.playing._queue, line.data = cast("Any", line), data
    assert await stored(server) == ("cancelled", "")
    assert [event async for event in server.turns.run_manager.follow(RUN)] == []
    assert await player.play(RUN)
    assert (line.data, await stored(server)) == (None, ("cancelled", ""))


async def test_a_run_that_a_worker_has_begun_is_not_ended_by_another_process(queued: Queued) -> None:
    server, _, player = queued
    assert await player.play(RUN)
    server.turns.playing._queue = cast("Any", Dying(b""))
    await server.turns.playing.cancel("tenant", RUN)
    assert await stored(server) == ("succeeded", "")


async def test_a_run_whose_server_died_before_it_created_the_stream_can_be_followed(queued: Queued) -> None:
    """For its followers, it was gone until a worker began it. A repeated request began a second run."""
    server, _, player = queued
    journal: Any = server.app_state.run_manager.journal
    await journal._client.delete(journal._head_key(RUN))
    assert (await server.turns.playing.head("tenant", RUN)).player == QUEUED
    await journal._client.delete(journal._head_key(RUN))
    follower = server.turns.run_manager.follow(RUN)
    first = asyncio.create_task(anext(follower))
    await asyncio.sleep(0.1)
    assert not first.done()
    assert (await player.play(RUN), (await first)[0]) == (True, 1)
    await follower.aclose()


@pytest.mark.parametrize("what", ["data", "policy", "canvas"])
async def test_an_unplayable_run_is_refused(queued: Queued, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    server, line, player = queued
    assert line.data is not None
    if what == "canvas":
        monkeypatch.setattr(server.turns, "runner", AsyncMock(side_effect=CompileError([])))
    else:
        later = encode_run(structs.replace(decode_run(line.data), policy="later"))
        line.data = later if what == "policy" else b'{"intent": "dream"}'
    assert await player.play(RUN)
    status, error = await stored(server)
    assert (line.data, status, "cannot be played" in error) == (None, "refused", True)
    with pytest.raises(StreamAbandonedError, match="The run cannot be played"):
        async for _ in server.turns.run_manager.follow(RUN):
            pass


async def test_a_failure_that_passes_never_ends_a_run(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    server, line, player = queued
    with monkeypatch.context() as failing:
        failing.setattr(server.turns, "runner", AsyncMock(side_effect=StreamError("Redis is away.")))
        assert not await player.play(RUN)
    assert await stored(server) == ("running", "")
    assert await player.play(RUN)
    assert (line.data, await stored(server)) == (None, ("succeeded", ""))


async def test_a_run_whose_client_was_refused_is_not_played(queued: Queued) -> None:
    server, line, player = queued
    await RunRepository(server.app_state.database, server.tenant).end(RUN, "failed", "Redis is away.", Usage(), 1)
    assert await player.play(RUN)
    assert line.data is None
    assert await server.app_state.store.runs.get(RUN) is None
    with pytest.raises(StreamAbandonedError):
        async for _ in server.turns.run_manager.follow(RUN):
            pass


async def test_a_run_whose_stream_has_expired_goes_on_where_its_worker_stopped(tmp_path: Path, redis_url: str) -> None:
    url, prefix = f"sqlite:///{tmp_path}/sessions.db", fresh_prefix()
    options: dict[str, Any] = {"checkpoints": url, "database": SecretStr(f"sqlite:///{tmp_path}/server.db")}
    options |= {"sections": {"checkpoint_prefix": prefix}, "journal": SecretStr(redis_url)}
    async with start_app(tmp_path, [Reply("first"), Reply("never", hangs=True)], **options) as server:
        line: Any = await order(server, TWO_MESSAGES)
        playing = asyncio.create_task(RunPlayer(server.app_state, server.turns, line).play(RUN))
        await wait_while(lambda: len(server.model.requests) < 2)
        await server.app_state.run_manager.drain(handover_s=0)
        assert not await playing
    redis: Any = Redis.from_url(redis_url)  # pyright: ignore[reportUnknownMemberType]
    async with redis as client:
        keys: list[Any] = [key async for key in client.scan_iter(f"{prefix}agent:events*")]
        assert keys
        await client.delete(*keys)
    async with start_app(tmp_path, [Reply("second")], **options) as server:
        await_orders(server, line)
        assert await RunPlayer(server.app_state, server.turns, line).play(RUN)
        assert (line.data, await stored(server), len(server.model.requests)) == (None, ("succeeded", ""), 1)


async def test_what_a_slow_process_sends_before_its_run_is_taken_over_is_not_sent_again(
    queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers got it twice: what they had was read before the slow process could send no more."""
    server, _, player = queued
    await leave(server)
    journal: Any = server.app_state.run_manager.journal
    claim, entry = journal.claim, {"e": encode_entry(WorkflowStarted(None))}

    async def claim_late(head: RunHead, previous: str) -> bool:
        await journal._client.xadd(journal._stream_key(RUN), entry, id="1-0")
        return await claim(head, previous)

    monkeypatch.setattr(journal, "claim", claim_late)
    assert await player.play(RUN)
    events = [event.event async for _, event in server.turns.run_manager.follow(RUN)]
    assert (events.count("workflow_started"), events[-1]) == (1, "workflow_finished")


async def test_a_run_that_was_stopped_at_once_is_given_back(queued: Queued) -> None:
    server, line, player = queued
    playing = asyncio.create_task(player.play(RUN))
    await wait_while(lambda: not server.app_state.run_manager.has(RUN))
    await server.app_state.run_manager.drain(0)
    assert not await playing
    assert line.data is not None


async def test_a_run_whose_end_was_lost_with_redis_goes_on(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    server, line, player = queued
    journal, texts = server.app_state.run_manager.journal, list[str]()

    async def follow() -> None:
        async for _, event in server.turns.run_manager.follow(RUN):
            texts.extend([event.content] if isinstance(event, Message) else [])

    with monkeypatch.context() as failing:
        failing.setattr(journal, "append", AsyncMock(side_effect=StreamError("Redis is away.")))
        assert not await player.play(RUN)
    server.turns.playing._queue = cast("Any", line)
    following = asyncio.create_task(follow())
    async with asyncio.timeout(60):
        assert await player.play(RUN)
        await following
    assert (line.data, await stored(server), "".join(texts)) == (None, ("succeeded", ""), "You said hi")


async def test_a_run_that_its_worker_has_lost_is_given_back(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    server, _, player = queued
    run_manager = server.app_state.run_manager
    assert await run_manager.journal.claim(structs.replace(await run_manager.head(RUN), player="another"), QUEUED)
    await run_manager.journal.heartbeat("another", [], [])
    assert not await player.play(RUN)
    assert await stored(server) == ("running", "")


async def leave(server: AppServer) -> Envelope:
    """Claim the run as a process that then dies."""
    run_manager = server.app_state.run_manager
    head = structs.replace(await run_manager.head(RUN), player="dead", process="host/1|42|7")
    assert await run_manager.journal.claim(head, QUEUED)
    return head.envelope


async def test_a_run_without_a_first_step_is_started_again(queued: Queued, caplog: pytest.LogCaptureFixture) -> None:
    """It failed for ever, or was refused."""
    server, line, player = queued
    await leave(server)
    assert await player.play(RUN)
    assert (line.data, await stored(server)) == (None, ("succeeded", ""))
    assert f"run {RUN} goes on here: process 42 on host has not reported" in caplog.messages


async def test_a_run_that_died_before_its_first_step_can_be_cancelled(queued: Queued) -> None:
    """The request was accepted, but the next worker played the run."""
    server, line, player = queued
    await leave(server)
    assert await server.turns.playing.cancel("tenant", RUN)
    assert await player.play(RUN)
    assert [event async for event in server.turns.run_manager.follow(RUN)] == []
    assert (line.data, await stored(server)) == (None, ("cancelled", ""))


async def test_an_order_that_this_worker_cannot_read_is_not_ended_while_another_plays_it(queued: Queued) -> None:
    server, line, player = queued
    line.data = b"?"
    await leave(server)
    await server.app_state.run_manager.journal.heartbeat("dead", [], [])
    assert not await player.play(RUN)
    assert (line.data, await stored(server)) == (b"?", ("running", ""))
    await server.app_state.run_manager.journal.retire("dead")
    assert await player.play(RUN)
    assert (line.data, [owner.id for owner in line.freed]) == (None, ["tenant", "page"])
    line.data, ended = b"?", await stored(server)  # its message has come twice
    assert await player.play(RUN)
    assert (line.data, await stored(server)) == (None, ended)


async def test_an_order_that_nobody_can_read_is_removed_when_its_stream_has_expired(queued: Queued) -> None:
    server, line, player = queued
    line.data, journal = b"?", cast("Any", server.app_state.run_manager.journal)
    await journal._client.delete(journal._head_key(RUN))
    assert (await player.play(RUN), line.data) == (True, None)


@pytest.mark.parametrize("status", ["cancelled", "refused"])
async def test_a_run_whose_end_is_stored_only_ends_for_its_followers(queued: Queued, status: str) -> None:
    server, _, player = queued
    await leave(server)
    await RunRepository(server.app_state.database, server.tenant).end(RUN, status, "", Usage(), 1)
    assert await player.play(RUN)
    assert (await stored(server))[0] == status
    assert await server.app_state.store.runs.get(RUN) is None
    end = await server.app_state.run_manager.read_end(RUN)
    assert end is not None
    assert end.status == status


async def test_a_run_that_is_cancelled_before_its_takeover_is_not_continued(queued: Queued) -> None:
    """The cancel was accepted, but the takeover played the run to its end."""
    server, _, player = queued
    envelope, app_state = await leave(server), server.app_state
    await app_state.store.runs.put(RunRecord(RUN, envelope.session_id, envelope.session_id, "", ""))
    row = await server.run_row(RUN)
    agent = await AgentRepository(app_state.database, server.tenant).get(row.agent_id)
    assert agent is not None
    control = RunControl(app_state, server.turns, agent)
    assert await control.state(row) == "running"
    await control.cancel(row)
    assert await stored(server) == ("running", "")
    assert await player.play(RUN)
    assert await stored(server) == ("cancelled", "")


async def test_a_run_waits_until_its_session_is_free(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_player, "FREE_S", 0.05)
    server, _, player = queued
    lease = await server.app_state.store.leases.acquire((await leave(server)).session_id, lambda: None)
    assert not await player.play(RUN)
    await lease.release()
    assert await player.play(RUN)
    assert await stored(server) == ("succeeded", "")


async def test_a_run_that_loses_its_session_each_time_has_failed(
    queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried for ever."""
    server, line, player = queued
    plays = list[bool]()

    async def lose(self: Run, *, publishes: bool = False) -> AsyncGenerator[list[Any]]:
        yield [WorkflowStarted(None)]
        raise SessionBusyError("This run no longer holds its session.")

    monkeypatch.setattr(Run, "batches", lose)
    while True not in plays and len(plays) < 9:
        plays.append(await player.play(RUN))
    assert plays == [False] * (1 + server.app_state.settings.limits.takeovers) + [True]
    assert (line.data, (await stored(server))[0]) == (None, "failed")


async def test_a_worker_that_stops_does_not_wait_for_a_session(queued: Queued, monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept the run until it was killed."""
    server, line, player = queued
    lease = await server.app_state.store.leases.acquire((await leave(server)).session_id, lambda: None)
    holder, looked = server.app_state.store.leases.holder, asyncio.Event()

    async def look(session_id: str) -> Any:
        looked.set()
        return await holder(session_id)

    monkeypatch.setattr(server.app_state.store.leases, "holder", look)
    playing = asyncio.create_task(player.play(RUN))
    await looked.wait()
    await server.app_state.run_manager.drain()
    async with asyncio.timeout(10):
        assert not await playing
    await lease.release()
    assert line.data is not None


async def test_a_worker_goes_on_after_an_answer_of_the_queue_that_it_does_not_understand(
    queued: Queued, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It seemed to work, but took no runs any more."""
    monkeypatch.setattr(run_worker, "PAUSE_S", 0.0)
    server, line, _ = queued
    async with open_queue(redis_url, "w", prefix=fresh_prefix()) as queue:
        await queue.put(RUN, line.data or b"")
        answers: list[Any] = [ValueError("What?"), await queue.take()]

        async def take() -> Any:
            if not answers:
                return await asyncio.sleep(0.01)
            if isinstance(answer := answers.pop(0), Exception):
                raise answer
            return answer

        monkeypatch.setattr(queue, "take", take)
        await_orders(server, queue)
        async with QueueWorker(server.app_state, queue, server.turns, 1).working(), asyncio.timeout(30):
            while await queue.has(RUN):
                await asyncio.sleep(0.01)
        assert (await stored(server))[0] == "succeeded"
    assert "no run can be taken: What?" in caplog.messages
