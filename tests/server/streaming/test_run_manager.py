import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from ragflow_lg.base.errors import (
    AnswerError,
    CheckpointError,
    ConflictError,
    RagflowLgError,
    RunError,
    StreamError,
    StreamGapError,
    StreamInterruptedError,
    StreamPositionError,
    StreamUnknownError,
)
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.server.streaming.journal import LEFT, QUEUED, Bounds, RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.new_run import NewRun, encode_run
from ragflow_lg.server.streaming.run_manager import RunManager
from ragflow_lg.server.streaming.run_queue import open_queue
from ragflow_lg.server.streaming.run_task import CANCEL, CONTINUE, PlaySpec
from tests.fakes.scripted_run import ScriptedRun, words
from tests.server.streaming.journals import OpenJournal, follow_to_end, memory_journal, open_manager
from tests.server.waiting import wait_while
from tests.stores import fresh_prefix


async def start(run_manager: RunManager, run: Any, policy: str = CONTINUE) -> str:
    return await run_manager.start(PlaySpec(run, policy))


async def test_followers_get_all_events_whenever_they_start(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(50), gate, *words(50, 51)])
    everything = [(number, f"w{number}") for number in range(1, 101)]
    async with open_journal() as journal, open_manager(journal) as run_manager:
        run_id = await start(run_manager, run)
        assert run_id == run.envelope.message_id
        await wait_for_events(run_manager, run_id, 50)
        early = [asyncio.create_task(follow_to_end(run_manager, run_id, after)) for after in (0, 0, 20, 50)]
        await asyncio.sleep(0.02)
        assert (len(tasks_of(run_manager)), await run_manager.read_end(run_id)) == (1, None)
        assert [await run_manager.is_played(each) for each in (run_id, "0" * 32)] == [True, False]
        gate.set()
        assert await asyncio.gather(*early) == [everything[after:] for after in (0, 0, 20, 50)]
        for after in (99, 100):  # after the end as well
            assert await follow_to_end(run_manager, run_id, after) == everything[after:]
        for after in (101, 9_999, -1):
            with pytest.raises(
                StreamPositionError, match=f"has had events 1 to 100 so far; event {after} is not among"
            ):
                await follow_to_end(run_manager, run_id, after)
        end = await run_manager.read_end(run_id)
        assert end is not None
        assert (end.status, end.error, await run_manager.is_played(run_id)) == ("succeeded", None, False)
        assert (await run_manager.head(run_id)).envelope == run.envelope
        assert not tasks_of(run_manager)


ERRORS: list[RagflowLgError] = [
    ConflictError("The session is being run by process 7."),
    AnswerError({"size": "It is required."}, node="UserFillUp:0"),
    CheckpointError("The session store failed."),
    RunError("KeyError: 'x'", node="LLM:0"),
]


async def test_an_error_reaches_every_follower_unchanged(open_journal: OpenJournal) -> None:
    async with open_journal() as journal, open_manager(journal) as run_manager:
        for error in ERRORS:
            run_id = await start(run_manager, ScriptedRun([*words(2), error]))
            early = [follow_to_end(run_manager, run_id) for _ in range(4)]
            results = await asyncio.gather(*early, return_exceptions=True)
            for result in (
                *results,
                *await asyncio.gather(follow_to_end(run_manager, run_id, 2), return_exceptions=True),
            ):
                assert (type(result), str(result), vars(result)) == (type(error), str(error), vars(error))
        run_id = await start(run_manager, ScriptedRun([KeyError("x")]))
        with pytest.raises(RunError, match="KeyError: 'x'"):
            await follow_to_end(run_manager, run_id)


async def test_an_unknown_run_is_reported(open_journal: OpenJournal) -> None:
    async with open_journal() as journal, open_manager(journal) as run_manager:
        for run_id in ("0" * 32, "", "../x", "a:b\r\n", "x" * 5000, "ü"):
            for call in (follow_to_end(run_manager, run_id), run_manager.head(run_id), run_manager.read_end(run_id)):
                with pytest.raises(StreamUnknownError):
                    await call
            assert not run_manager.cancel(run_id)


async def test_a_follower_too_slow_for_the_journal_gets_a_gap_error(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(3), gate, *words(1000, 4)])
    async with open_journal(Bounds(100, 1 << 20)) as journal, open_manager(journal) as run_manager:
        run_id = await start(run_manager, run)
        async with aclosing(run_manager.follow(run_id)) as slow:
            assert (await anext(slow))[0] == 1
            gate.set()
            await wait_while(lambda: tasks_of(run_manager))
            with pytest.raises(StreamGapError, match="have been dropped") as raised:
                [number async for number, _ in slow]
        assert raised.value.first > 300
        assert len(await follow_to_end(run_manager, run_id, raised.value.first - 1)) >= 99


# Followers that leave


async def follow_one_event(run_manager: RunManager, run_id: str) -> None:
    async with aclosing(run_manager.follow(run_id)) as events:
        await anext(events)


@pytest.mark.parametrize(
    ("policy", "status"), [(CANCEL, "cancelled"), ("grace:0.05", "cancelled"), (CONTINUE, "running")]
)
async def test_the_policy_applies_without_followers(open_journal: OpenJournal, policy: str, status: str) -> None:
    run = ScriptedRun([*words(1), asyncio.Event()])
    async with open_journal() as journal, open_manager(journal, heartbeat_s=0.02) as run_manager:
        run_id = await start(run_manager, run, policy)
        other = asyncio.create_task(follow_to_end(run_manager, run_id))
        await follow_one_event(run_manager, run_id)
        await asyncio.sleep(0.1)
        assert run.status == "running"  # one follower is left
        other.cancel()
        if status == "running":
            await asyncio.sleep(0.1)
        else:
            await wait_while(lambda: not run.is_closed)
        assert run.status == status


async def test_a_run_continues_for_a_follower_that_returns_in_time() -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(1), gate, *words(1, 2)])
    async with open_manager(MemoryJournal()) as run_manager:
        run_id = await start(run_manager, run, "grace:5")
        for _ in range(3):
            await follow_one_event(run_manager, run_id)
            await asyncio.sleep(0.02)
        gate.set()
        assert await follow_to_end(run_manager, run_id, 1) == [(2, "w2")]


async def test_a_run_that_nobody_ever_follows_is_cancelled() -> None:
    run = ScriptedRun([asyncio.Event()])
    async with open_manager(MemoryJournal(), arrival_s=0.03) as run_manager:
        await start(run_manager, run, CANCEL)
        await wait_while(lambda: not run.is_closed)
        assert run.status == "cancelled"


async def test_followers_see_the_end_of_cancelled_and_drained_runs() -> None:
    runs = [ScriptedRun([*words(1), asyncio.Event()]) for _ in range(3)]
    async with open_manager(MemoryJournal()) as run_manager:
        ids = [await start(run_manager, run) for run in runs]
        assert run_manager.cancel(ids[0])
        assert await follow_to_end(run_manager, ids[0]) == [(1, "w1")]
        assert not run_manager.cancel(ids[0])
        followers = [asyncio.create_task(follow_to_end(run_manager, run_id)) for run_id in ids[1:]]
        await asyncio.sleep(0.01)
        await run_manager.drain()
        for follower in followers:
            with pytest.raises(StreamInterruptedError, match="Continue the session"):
                await follower
        with pytest.raises(StreamError, match="shutting down"):
            await start(run_manager, ScriptedRun([]))
        assert not tasks_of(run_manager)


# Replicas


async def test_a_follower_continues_on_another_replica(open_replica: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(300), gate, *words(300, 301)])
    async with open_replica() as one, open_replica() as two, open_manager(one) as here, open_manager(two) as there:
        run_id = await start(here, run, "grace:0.8")
        seen: list[tuple[int, Any]] = []
        async with aclosing(here.follow(run_id)) as events:
            async for number, event in events:
                assert isinstance(event, Message)
                seen.append((number, event.content))
                if number == 150:
                    break
        rest = asyncio.create_task(follow_to_end(there, run_id, 150))
        await asyncio.sleep(1)  # longer than the grace period of the first replica
        assert run.status == "running"
        gate.set()
        seen += await rest
        assert seen == [(number, f"w{number}") for number in range(1, 601)]
        assert (await there.head(run_id)).envelope == run.envelope
        end = await there.read_end(run_id)
        assert end is not None
        assert end.status == "succeeded"


async def test_followers_notice_that_a_replica_has_died(open_replica: OpenJournal) -> None:
    run = ScriptedRun([*words(2), asyncio.Event()])
    async with open_replica() as one, open_replica(quiet_s=0.2) as two, open_manager(two) as there:
        dying = RunManager(one, heartbeat_s=0.1)
        run_id = await start(dying, run)
        seen: list[int] = []

        async def follow() -> None:
            async with aclosing(there.follow(run_id)) as events:
                async for number, _ in events:
                    seen.append(number)

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.7)
        assert not following.done()  # quiet but alive
        await dying._heartbeat.aclose()  # pyright: ignore[reportPrivateUsage]  # as if the process had died
        async with asyncio.timeout(60):
            with pytest.raises(StreamInterruptedError, match="Continue the session"):
                await following
        assert seen == [1, 2]
        assert not there.cancel(run_id)
        await dying.aclose()


async def test_followers_of_a_left_run_wait_while_it_is_quiet() -> None:
    """Those who came before it went on received an error: its process had stopped."""
    gate = asyncio.Event()
    run = ScriptedRun([gate, *words(2)])
    async with memory_journal() as journal, open_manager(journal) as run_manager:
        await journal.begin(RunHead(run.envelope, LEFT), is_elsewhere=True)
        following = asyncio.create_task(follow_to_end(run_manager, run.envelope.message_id))
        await asyncio.sleep(0.05)
        await run_manager.start(PlaySpec(run, CONTINUE, previous=LEFT))
        await asyncio.sleep(0.5)
        assert not following.done()
        gate.set()
        assert [text for _, text in await following] == ["w1", "w2"]


class UnreadableReplay:
    """What followers have received cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def open(self) -> None:
        raise self.error

    def feed(self, event: Any) -> Any:
        return (event,)

    def complete(self, error: ConflictError) -> Any:
        raise error


@pytest.mark.parametrize("error", [StreamError("It did not answer."), KeyError("x")])
async def test_a_run_that_cannot_be_begun_after_its_claim_goes_on_elsewhere(
    open_replica: OpenJournal, error: Exception
) -> None:
    async with open_replica() as one, open_replica() as two, open_manager(one) as here, open_manager(two) as there:
        run = ScriptedRun(words(5))
        run_id = run.envelope.message_id
        await one.begin(RunHead(run.envelope, "dead"))
        claiming = PlaySpec(ScriptedRun([], run_id), CONTINUE, previous="dead", replay=UnreadableReplay(error))
        with pytest.raises(type(error), match=str(error)):
            await here.start(claiming)
        end = await there.read_end(run_id)
        assert end is not None
        assert (end.status, end.player) == ("drained", here.player)
        await there.start(PlaySpec(run, CONTINUE, previous=here.player))
        for run_manager in (here, there):
            async with asyncio.timeout(60):
                assert [content for _, content in await follow_to_end(run_manager, run_id)] == [
                    f"w{number}" for number in range(1, 6)
                ]


async def test_the_head_of_a_queued_run_is_created_unless_it_is_played_or_this_server_stops(
    open_replica: OpenJournal, redis_url: str
) -> None:
    """A server that stopped said that the run was gone; a lost head of a run that was played ended the run."""
    run = ScriptedRun([])
    run_id = run.envelope.message_id
    async with open_replica() as journal, open_queue(redis_url, prefix=fresh_prefix()) as queue:
        run_manager = RunManager(journal, queue=queue)
        await queue.put(run_id, encode_run(NewRun(run.envelope, "t", "a")))
        run_manager.is_draining = True
        with pytest.raises(StreamInterruptedError, match="goes on: send the request again"):
            await run_manager.head(run_id)
        run_manager.is_draining = False
        assert (await run_manager.head(run_id)).player == QUEUED
        assert await journal.claim(RunHead(run.envelope, "worker"), QUEUED)
        await journal.append(run_id, [b"1"])
        await journal._client.delete(journal._head_key(run_id))
        with pytest.raises(StreamUnknownError):
            await run_manager.head(run_id)
        await journal.append(run_id, [b"2"], is_last=True)
        await run_manager.aclose()


def tasks_of(run_manager: RunManager) -> Any:
    return run_manager._tasks  # pyright: ignore[reportPrivateUsage]


async def wait_for_events(run_manager: RunManager, run_id: str, count: int) -> None:
    async with asyncio.timeout(60):
        while len(await run_manager.events_so_far(run_id)) < count:
            await asyncio.sleep(0.005)
