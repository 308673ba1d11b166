from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import aclosing
from typing import Any

import pytest

from ragflow_lg.base.errors import (
    AnswerError,
    CheckpointError,
    ConflictError,
    RagflowLgError,
    RunError,
    RunInterruptedError,
    RunUnknownError,
    StreamError,
    StreamGapError,
    StreamPositionError,
)
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.streaming.disconnect_policy import CANCEL, CONTINUE, DisconnectPolicy
from ragflow_lg.server.streaming.event_window import Bounds
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.run_manager import RunManager
from ragflow_lg.wire.wire_events import Message
from tests.fakes.canvas import canvas, node
from tests.fakes.scripted_run import ScriptedRun, words
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.server.streaming.journals import OpenJournal, hub_on, said


async def start(run_manager: RunManager, run: Any, policy: DisconnectPolicy = CONTINUE) -> str:
    return await run_manager.start(run, policy)


async def ended(run: ScriptedRun) -> str:
    async with asyncio.timeout(5):
        while not run.is_closed:
            await asyncio.sleep(0.005)
    return run.status


async def test_followers_get_everything_whenever_they_come(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(50), gate, *words(50, 51)])
    everything = [(number, f"w{number}") for number in range(1, 101)]
    async with open_journal() as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, run)
        assert run_id == run.envelope.message_id
        early = [asyncio.create_task(said(run_manager, run_id, after)) for after in (0, 0, 20, 50)]
        await asyncio.sleep(0.02)
        assert run_manager.running_count == 1
        assert await run_manager.read_end(run_id) is None
        gate.set()
        for follower, after in zip(early, (0, 0, 20, 50), strict=True):
            assert await follower == everything[after:]
        assert await said(run_manager, run_id, 99) == everything[99:]  # after the end, too
        assert await said(run_manager, run_id, 100) == []
        end = await run_manager.read_end(run_id)
        assert end is not None
        assert (end.status, end.error) == ("succeeded", None)
        assert (await run_manager.head(run_id)).envelope == run.envelope
        assert run_manager.running_count == 0


ERRORS: list[Exception] = [
    ConflictError("The session is being run by process 7."),
    AnswerError({"size": "It is required."}, node="UserFillUp:0"),
    CheckpointError("The session store failed."),
    RunError("KeyError: 'x'", node="LLM:0"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
async def test_a_failure_reaches_every_follower_as_it_is(open_journal: OpenJournal, error: RagflowLgError) -> None:
    async with open_journal() as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, ScriptedRun([*words(2), error]))
        results = await asyncio.gather(*(said(run_manager, run_id) for _ in range(5)), return_exceptions=True)
        results += await asyncio.gather(said(run_manager, run_id, 2), return_exceptions=True)
        for result in results:
            assert type(result) is type(error)
            assert str(result) == str(error)
            assert vars(result) == vars(error)


async def test_a_fault_of_the_engine_is_a_run_error() -> None:
    async with hub_on(MemoryJournal()) as run_manager:
        run_id = await start(run_manager, ScriptedRun([KeyError("x")]))
        with pytest.raises(RunError, match="KeyError: 'x'"):
            await said(run_manager, run_id)


@pytest.mark.parametrize(
    ("after", "kind", "text"),
    [
        (4, StreamPositionError, "has had events 1 to 3 so far; nothing comes behind event 4"),
        (9_999, StreamPositionError, "events 1 to 3"),
        (-1, StreamPositionError, "behind event -1"),
    ],
)
async def test_a_wrong_place_is_told(open_journal: OpenJournal, after: int, kind: type[StreamError], text: str) -> None:
    async with open_journal() as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, ScriptedRun(words(3)))
        assert len(await said(run_manager, run_id)) == 3
        with pytest.raises(kind, match=text):
            await said(run_manager, run_id, after)


@pytest.mark.parametrize("run_id", ["0" * 32, "", "../x", "a:b\r\n", "x" * 5000, "ü"])
async def test_a_run_that_nobody_knows_is_told(open_journal: OpenJournal, run_id: str) -> None:
    async with open_journal() as journal, hub_on(journal) as run_manager:
        for asked in (said(run_manager, run_id), run_manager.head(run_id), run_manager.read_end(run_id)):
            with pytest.raises(RunUnknownError):
                await asked
        assert not await run_manager.cancel(run_id)


async def test_what_a_run_has_said_so_far_is_told_without_its_end(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(100), gate, *words(3)])
    async with open_journal(Bounds(102, 1 << 20)) as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, run)
        async with asyncio.timeout(5):
            while len(await run_manager.events_so_far(run_id)) < 100:
                await asyncio.sleep(0.005)
        assert [getattr(event, "content", "") for event in await run_manager.events_so_far(run_id)] == [
            f"w{n}" for n in range(1, 101)
        ]
        gate.set()
        async with asyncio.timeout(5):
            while run_manager.running_count:
                await asyncio.sleep(0.005)
        with pytest.raises(StreamGapError, match="have been dropped"):
            await run_manager.events_so_far(run_id)


async def test_who_is_too_slow_for_the_journal_gets_a_gap(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(3), gate, *words(1000, 4)])
    async with open_journal(Bounds(100, 1 << 20)) as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, run)
        async with aclosing(run_manager.follow(run_id)) as slow:
            assert (await anext(slow))[0] == 1
            gate.set()
            async with asyncio.timeout(5):
                while run_manager.running_count:
                    await asyncio.sleep(0.005)
            with pytest.raises(StreamGapError, match="have been dropped") as raised:
                [number async for number, _ in slow]
        assert raised.value.first > 300
        assert len(await said(run_manager, run_id, raised.value.first - 1)) >= 99


# Who leaves, and what becomes of the run


async def follow_a_little(run_manager: RunManager, run_id: str) -> None:
    async with aclosing(run_manager.follow(run_id)) as events:
        await anext(events)


@pytest.mark.parametrize(
    ("policy", "status"), [(CANCEL, "cancelled"), (DisconnectPolicy(0.05), "cancelled"), (CONTINUE, "running")]
)
async def test_the_policy_says_what_happens_when_the_last_one_leaves(
    open_journal: OpenJournal, policy: DisconnectPolicy, status: str
) -> None:
    run = ScriptedRun([*words(1), asyncio.Event()])
    async with open_journal() as journal, hub_on(journal, beat_s=0.02) as run_manager:
        run_id = await start(run_manager, run, policy)
        other = asyncio.create_task(said(run_manager, run_id))
        await follow_a_little(run_manager, run_id)
        await asyncio.sleep(0.1)
        assert run.status == "running"  # one is still there
        other.cancel()
        if status == "running":
            await asyncio.sleep(0.1)
            assert run.status == "running"
        else:
            assert await ended(run) == status


async def test_who_comes_back_in_time_finds_the_run_going_on() -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(1), gate, *words(1, 2)])
    async with hub_on(MemoryJournal()) as run_manager:
        run_id = await start(run_manager, run, DisconnectPolicy(5))
        for _ in range(3):
            await follow_a_little(run_manager, run_id)
            await asyncio.sleep(0.02)
        gate.set()
        assert await said(run_manager, run_id, 1) == [(2, "w2")]


async def test_a_run_that_nobody_ever_follows_is_given_up() -> None:
    run = ScriptedRun([asyncio.Event()])
    async with hub_on(MemoryJournal(), arrival_s=0.03) as run_manager:
        await start(run_manager, run, CANCEL)
        assert await ended(run) == "cancelled"


async def test_cancel_and_drain_end_runs_and_are_told() -> None:
    runs = [ScriptedRun([*words(1), asyncio.Event()]) for _ in range(3)]
    async with hub_on(MemoryJournal()) as run_manager:
        ids = [await start(run_manager, run) for run in runs]
        assert await run_manager.cancel(ids[0])
        assert await said(run_manager, ids[0]) == [(1, "w1")]
        assert not await run_manager.cancel(ids[0])
        followers = [asyncio.create_task(said(run_manager, run_id)) for run_id in ids[1:]]
        await asyncio.sleep(0.01)
        await run_manager.drain()
        for follower in followers:
            with pytest.raises(RunInterruptedError, match="Continue the session"):
                await follower
        with pytest.raises(StreamError, match="shutting down"):
            await start(run_manager, ScriptedRun([]))
        assert run_manager.running_count == 0


async def test_what_does_not_drain_in_time_is_stopped() -> None:
    run = ScriptedRun([*words(1), asyncio.Event()])
    run.drain = lambda: None  # type: ignore[method-assign]
    async with hub_on(MemoryJournal()) as run_manager:
        run_id = await start(run_manager, run)
        async with asyncio.timeout(2):
            await run_manager.drain(0.02)
        assert run.is_closed
        with pytest.raises(RunInterruptedError):
            await said(run_manager, run_id)


# Replicas


async def test_a_reader_leaves_here_and_goes_on_elsewhere(open_replica: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(300), gate, *words(300, 301)])
    async with open_replica() as one, open_replica() as two, hub_on(one) as here, hub_on(two) as there:
        run_id = await start(here, run, DisconnectPolicy(0.8))
        seen: list[tuple[int, Any]] = []
        async with aclosing(here.follow(run_id)) as events:
            async for number, event in events:
                seen.append((number, event.content))  # type: ignore[union-attr]
                if number == 150:
                    break
        rest = asyncio.create_task(said(there, run_id, 150))
        await asyncio.sleep(1)  # longer than the grace of the place that it has left
        assert run.status == "running"
        gate.set()
        seen += await rest
        assert seen == [(number, f"w{number}") for number in range(1, 601)]
        assert (await there.head(run_id)).envelope == run.envelope
        end = await there.read_end(run_id)
        assert end is not None
        assert end.status == "succeeded"


async def test_a_failure_is_told_elsewhere_too(open_replica: OpenJournal) -> None:
    async with open_replica() as one, open_replica() as two, hub_on(one) as here, hub_on(two) as there:
        run_id = await start(here, ScriptedRun([*words(2), ConflictError("busy")]))
        with pytest.raises(ConflictError, match=r"^busy$"):
            await said(there, run_id)


async def test_a_replica_that_dies_is_noticed(open_replica: OpenJournal) -> None:
    run = ScriptedRun([*words(2), asyncio.Event()])
    async with open_replica() as one, open_replica(quiet_s=0.2) as two, hub_on(two) as there:
        dying = RunManager(one, beat_s=0.1)
        run_id = await start(dying, run)
        seen: list[int] = []

        async def follow() -> None:
            async with aclosing(there.follow(run_id)) as events:
                async for number, _ in events:
                    seen.append(number)

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.7)
        assert not following.done()  # it is quiet, but lives
        dying._beating.cancel()  # type: ignore[union-attr]
        async with asyncio.timeout(3):
            with pytest.raises(RunInterruptedError, match="Continue the session"):
                await following
        assert seen == [1, 2]
        assert not await there.cancel(run_id)
        await dying.aclose()


class Cancels:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, session: str) -> None:
        self.asked.append(session)


async def test_a_run_is_cancelled_from_elsewhere_by_its_session(open_replica: OpenJournal) -> None:
    run, cancels = ScriptedRun([*words(1), asyncio.Event()]), Cancels()
    async with open_replica() as one, open_replica() as two:
        here, there = RunManager(one), RunManager(two, cancels)  # type: ignore[arg-type]
        run_id = await start(here, run)
        assert await there.cancel(run_id)
        assert cancels.asked == [run.envelope.session_id]
        run.cancel()
        await said(there, run_id)
        assert not await there.cancel(run_id)
        for run_manager in (here, there):
            await run_manager.aclose()


# Many


async def test_500_slow_followers_lose_nothing_and_hold_little() -> None:
    run = ScriptedRun([Message("x" * 1000) for _ in range(2000)])
    journal = MemoryJournal()
    async with hub_on(journal) as run_manager:
        run_id = await start(run_manager, run)
        followers = [run_manager.follow(run_id) for _ in range(500)]
        assert [(await anext(follower))[0] for follower in followers] == [1] * 500
        tracemalloc.start()
        try:
            await ended(run)  # nobody holds it up
            for follower in followers:
                for _ in range(20):
                    await anext(follower)
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        # The journal has 2 MB, once for all.
        assert held < 8_000_000
        for follower in followers[::50]:
            assert [number async for number, _ in follower] == list(range(22, 2001))
        for follower in followers:
            await follower.aclose()


# Real runs

CANVAS = canvas(
    {
        "LLM:0": node("LLM", {"prompts": "x"}, ["Message:0"]),
        "Message:0": node("Message", {"content": ["{LLM:0@content}"]}),
    }
)


async def test_a_real_run_says_the_same_through_the_hub(open_journal: OpenJournal) -> None:
    def runner() -> Runner:
        services = fake_services(models=OneModel(ScriptedModel([Reply("Hello \U0001f600 world", repeat=True)])))
        return Runner(compile_canvas(CANVAS, load_catalog()), services)

    direct = [event async for event in runner().start("s", {"query": "q"})]
    async with open_journal() as journal, hub_on(journal) as run_manager:
        run = runner().start("s", {"query": "q"})
        run_id = await start(run_manager, run)
        async with aclosing(run_manager.follow(run_id)) as events:
            followed = [event async for _, event in events]
    assert followed == direct
    assert run.answer == "Hello \U0001f600 world"


async def test_a_real_run_that_cannot_begin_tells_its_followers() -> None:
    runner = Runner(compile_canvas(CANVAS, load_catalog()), fake_services())
    async with hub_on(MemoryJournal()) as run_manager:
        run_id = await start(run_manager, runner.continue_("s"))
        with pytest.raises(ConflictError, match="Nothing waits"):
            await said(run_manager, run_id)


async def test_whether_a_run_is_played_is_known(open_journal: OpenJournal) -> None:
    gate = asyncio.Event()
    run = ScriptedRun([*words(2), gate])
    async with open_journal() as journal, hub_on(journal) as run_manager:
        run_id = await start(run_manager, run)
        assert await run_manager.is_played(run_id)
        assert not await run_manager.is_played("0" * 32)
        gate.set()
        assert len(await said(run_manager, run_id, 0)) == 2
        assert not await run_manager.is_played(run_id)
