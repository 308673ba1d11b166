import asyncio
from collections.abc import Sequence

import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.disconnect_policy import CONTINUE
from ragflow_lg.server.streaming.event_codec import RunEnd, decode_entry
from ragflow_lg.server.streaming.journal import RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.run_task import MAX_BACKLOG, RunTask
from tests.fakes.scripted_run import ScriptedRun, words


class SlowJournal(MemoryJournal):
    """Waits for a gate before it stores, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.sizes: list[int] = []
        self.is_broken = False

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        await self.gate.wait()
        if self.is_broken:
            raise StreamError("The event journal failed: gone.")
        self.sizes.append(len(data))
        await super().append(run_id, data, is_last=is_last)


def play(run: ScriptedRun, journal: MemoryJournal) -> RunTask:
    head = RunHead(run.envelope, "run_manager")
    return RunTask(run, head, CONTINUE, journal, arrival_s=1, away_s=1)


async def test_a_slow_journal_delays_the_run_and_gets_waiting_events_together() -> None:
    journal, run = SlowJournal(), ScriptedRun(words(1000))
    task = play(run, journal)
    await task.start_result
    await asyncio.sleep(0.02)
    assert run.event_count <= 2 * MAX_BACKLOG + 2
    journal.gate.set()
    await task.task
    assert run.event_count == 1000
    assert sum(journal.sizes) == 1001
    assert len(journal.sizes) < 20


async def test_a_journal_that_fails_ends_the_run() -> None:
    journal, run = SlowJournal(), ScriptedRun([*words(3), asyncio.Event()])
    journal.is_broken = True
    journal.gate.set()
    task = play(run, journal)
    async with asyncio.timeout(2):
        await task.task
    assert run.is_closed


async def test_a_run_that_the_journal_refuses_does_not_begin() -> None:
    journal, run = MemoryJournal(), ScriptedRun(words(3))
    await journal.begin(RunHead(run.envelope, "run_manager"))
    task = play(run, journal)
    with pytest.raises(StreamError, match="already"):
        await task.start_result
    await task.task
    assert run.event_count == 0


async def test_a_run_stopped_before_its_first_event_ends_as_interrupted() -> None:
    journal, run = MemoryJournal(), ScriptedRun([asyncio.Event()])
    task = play(run, journal)
    task.stop()
    await task.task
    tail = await journal.tail(run.envelope.message_id)
    assert tail is not None
    end = decode_entry(tail.data)
    assert isinstance(end, RunEnd)
    assert end.error is not None
    assert (end.status, end.error.code) == ("drained", "run-interrupted")
