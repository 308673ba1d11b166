from __future__ import annotations

import asyncio

import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.disconnect_policy import CONTINUE
from ragflow_lg.server.streaming.event_codec import RunEnd, decode_entry
from ragflow_lg.server.streaming.journal import RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.run_task import MAX_BACKLOG, RunTask
from tests.fakes.scripted_run import ScriptedRun, words


class SlowJournal(MemoryJournal):
    """Takes its time, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.sizes: list[int] = []
        self.is_broken = False

    async def append(self, run_id, data, *, is_last=False):  # type: ignore[no-untyped-def]
        await self.gate.wait()
        if self.is_broken:
            raise StreamError("The journal of events fails: gone.")
        self.sizes.append(len(data))
        await super().append(run_id, data, is_last=is_last)


def play(run: ScriptedRun, journal: MemoryJournal) -> RunTask:
    head = RunHead(run.envelope, "run_manager")
    return RunTask(run, head, CONTINUE, journal, arrival_s=1, away_s=1)  # type: ignore[arg-type]


async def test_a_slow_journal_holds_the_run_up_and_what_waits_goes_at_once() -> None:
    journal, run = SlowJournal(), ScriptedRun(words(1000))
    played = play(run, journal)
    await played.began
    await asyncio.sleep(0.02)
    assert run.event_count <= 2 * MAX_BACKLOG + 2
    journal.gate.set()
    await played.task
    assert run.event_count == 1000
    assert sum(journal.sizes) == 1001
    assert len(journal.sizes) < 20


async def test_a_journal_that_fails_ends_the_run() -> None:
    journal, run = SlowJournal(), ScriptedRun([*words(3), asyncio.Event()])
    journal.is_broken = True
    journal.gate.set()
    played = play(run, journal)
    async with asyncio.timeout(2):
        await played.task
    assert run.is_closed


async def test_a_run_that_is_not_taken_does_not_begin() -> None:
    journal, run = MemoryJournal(), ScriptedRun(words(3))
    await journal.begin(RunHead(run.envelope, "run_manager"))
    played = play(run, journal)
    with pytest.raises(StreamError, match="already"):
        await played.began
    await played.task
    assert run.event_count == 0


async def test_a_run_stopped_before_its_first_word_says_so() -> None:
    journal, run = MemoryJournal(), ScriptedRun([asyncio.Event()])
    played = play(run, journal)
    played.stop()
    await played.task
    tail = await journal.tail(run.envelope.message_id)
    assert tail is not None
    end = decode_entry(tail.data)
    assert isinstance(end, RunEnd)
    assert end.error is not None
    assert (end.status, end.error.code) == ("drained", "run-interrupted")
