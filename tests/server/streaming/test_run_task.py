import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from ragflow_lg.base.errors import RunError, SessionBusyError, SettingsError
from ragflow_lg.server.streaming.event_codec import LOST, RunEnd
from ragflow_lg.server.streaming.journal import RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.run_task import CONTINUE, PlaySpec, RunTask, parse_policy
from tests.fakes.scripted_run import ScriptedRun, words
from tests.harness.rows import each_row
from tests.server.streaming.journals import GatedJournal


class SharedJournal(GatedJournal):
    is_shared = True


def play(run: ScriptedRun, journal: MemoryJournal) -> RunTask:
    head = RunHead(run.envelope, "run_manager")
    return RunTask(PlaySpec(run, CONTINUE), head, journal, arrival_s=1, away_s=1)


@pytest.mark.parametrize("kind", [GatedJournal, SharedJournal])
async def test_a_journal_that_fails_ends_the_run(kind: type[GatedJournal]) -> None:
    journal, run = kind(), ScriptedRun([*words(3), asyncio.Event()])
    journal.is_broken = True
    journal.gate.set()
    task = play(run, journal)
    async with asyncio.timeout(60):
        await task.task
    assert run.is_closed


@pytest.mark.parametrize(
    ("text", "grace_s"), [("cancel", 0), ("continue", math.inf), ("grace:0", 0), ("grace:1.25", 1.25)]
)
def test_a_policy_is_parsed(text: str, grace_s: float) -> None:
    assert parse_policy(text) == grace_s


@each_row("text", ["", "grace", "grace:-1", "grace:nan", "grace:1e9", "Cancel", "grace:٣", "x" * 500])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="use cancel, continue or grace:SECONDS") as raised:
        parse_policy(text)
    assert len(str(raised.value)) < 150


async def test_a_run_waits_until_a_shared_journal_has_its_events_and_learns_if_it_fails() -> None:
    class PublishingRun(ScriptedRun):
        count = 0
        publishes = False

        async def batches(self, *, publishes: bool = False) -> AsyncGenerator[list[Any]]:
            self.publishes = publishes
            async with aclosing(super().batches()) as batches:
                async for batch in batches:
                    yield batch
                    self.count += 1

    journal, run = SharedJournal(), PublishingRun(words(3))
    task = play(run, journal)
    await task.start_result
    await asyncio.sleep(0.02)
    assert (run.publishes, run.count) == (True, 0)
    journal.is_broken = True
    journal.gate.set()
    async with asyncio.timeout(60):
        await task.task
    assert (run.is_closed, run.count) == (True, 0)


@pytest.mark.parametrize(("script", "has_begun"), [(words(2), True), ([RunError("broken")], False)])
async def test_the_end_of_a_run_is_stored_once_before_followers_learn_of_it(script: list[Any], has_begun: bool) -> None:
    journal, run = MemoryJournal(), ScriptedRun(script)
    stored: list[tuple[bool, bool]] = []

    async def store(has_begun: bool, is_interrupted: bool) -> None:
        tail = await journal.tail(run.envelope.message_id)
        assert not is_interrupted
        stored.append((has_begun, tail is not None and isinstance(tail.event, RunEnd)))

    head = RunHead(run.envelope, "run_manager")
    await RunTask(PlaySpec(run, on_finished=store), head, journal, arrival_s=1, away_s=1).task
    assert stored == [(has_begun, False)]
    tail = await journal.tail(run.envelope.message_id)
    assert tail is not None
    assert isinstance(tail.event, RunEnd)


@pytest.mark.parametrize(("kind", "status"), [(GatedJournal, "failed"), (SharedJournal, LOST)])
async def test_a_run_whose_session_another_process_takes_goes_on_there(kind: type[GatedJournal], status: str) -> None:
    journal, run = kind(), ScriptedRun([*words(1), SessionBusyError("This run no longer holds its session.")])
    journal.gate.set()
    await play(run, journal).task
    tail = await journal.tail(run.envelope.message_id)
    assert tail is not None
    assert isinstance(tail.event, RunEnd)
    assert (tail.event.status, tail.event.is_interruption) == (status, status == LOST)
