import asyncio

import pytest

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.server.streaming.backlog import MAX_BACKLOG, MAX_BACKLOG_BYTES, Backlog
from ragflow_lg.server.streaming.event_codec import EntryData
from tests.server.streaming.journals import GatedJournal, head


async def open_backlog(failures: list[str]) -> tuple[Backlog, GatedJournal]:
    journal = GatedJournal()
    await journal.begin(head("a"))
    return Backlog(journal, "a", lambda: failures.append("failed")), journal


@pytest.mark.parametrize(("event", "room"), [(b"x", MAX_BACKLOG), (Message("x" * (MAX_BACKLOG_BYTES // 4)), 4)])
async def test_what_arrives_during_a_write_is_written_together_up_to_a_limit(event: EntryData, room: int) -> None:
    backlog, journal = await open_backlog([])
    added = 0

    async def add() -> None:
        nonlocal added
        for _ in range(3 * room):
            await backlog.add(event)
            added += 1

    adding = asyncio.create_task(add())
    await asyncio.sleep(0.01)
    assert added == 2 * room  # half of them are being written
    journal.gate.set()
    await adding
    assert await backlog.finish() is None
    assert journal.sizes == [room] * 3


async def test_a_failure_is_reported_and_nothing_counts_as_written() -> None:
    failures: list[str] = []
    backlog, journal = await open_backlog(failures)
    await backlog.add(b"x")
    waiting = asyncio.create_task(backlog.wait_until_written())
    await asyncio.sleep(0)
    journal.is_broken = True
    journal.gate.set()
    with pytest.raises(RunCancelled):
        await waiting
    with pytest.raises(RunCancelled):
        await backlog.wait_until_written()
    assert failures == ["failed"]
    assert str(await backlog.finish()) == "The event journal failed: gone."
