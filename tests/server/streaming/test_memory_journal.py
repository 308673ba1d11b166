import asyncio
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, StreamError, StreamGapError, StreamUnknownError
from ragflow_lg.server.streaming.journal import PAGE, Bounds, gap_error, unknown_run
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.open_journal import open_journal
from tests.server.streaming.journals import OpenJournal, head, read


async def test_entries_are_numbered_and_can_be_read_from_any_position(open_journal: OpenJournal) -> None:
    async with open_journal() as journal:
        await journal.begin(head("a"))
        await journal.begin(head("b"))
        await journal.append("a", [b"1", b"2"])
        await journal.append("b", [b"other"])
        await journal.append("a", [b"3"])
        assert await read(journal, "a", 0, 3) == [(1, b"1"), (2, b"2"), (3, b"3")]
        assert (await read(journal, "a", 2, 1), await journal.tail("a")) == ([(3, b"3")], (3, b"3"))
        assert await journal.head("a") == head("a")
        assert await journal.head("c") is None


async def test_readers_are_notified_of_new_entries_and_of_quiet_periods(open_journal: OpenJournal) -> None:
    async with open_journal(quiet_s=0.02) as journal:
        await journal.begin(head("a"))
        readers = [asyncio.create_task(read(journal, "a", 0, 3)) for _ in range(20)]
        for data in (b"1", b"2", b"3"):
            await asyncio.sleep(0.005)
            await journal.append("a", [data], is_last=data == b"3")
        assert await asyncio.gather(*readers) == [[(1, b"1"), (2, b"2"), (3, b"3")]] * 20
        async with aclosing(journal.read("a", 3)) as pages:
            assert await anext(pages) == []


async def test_a_reader_before_dropped_entries_gets_a_gap_error(open_journal: OpenJournal) -> None:
    for bounds in (Bounds(10, 1 << 20), Bounds(1000, 100)):
        async with open_journal(bounds) as journal:
            run = str(bounds.entries)
            await journal.begin(head(run))
            for number in range(1, 41):
                await journal.append(run, [b"%10d" % number])
            for after in (0, 29):
                with pytest.raises(StreamGapError, match=f"Events {after + 1} to 30 of run {run}") as raised:
                    await read(journal, run, after, 1)
                assert raised.value.first == 31
            assert [number for number, _ in await read(journal, run, 30, 10)] == list(range(31, 41))


async def test_a_reader_gets_pages_of_bounded_size(open_journal: OpenJournal) -> None:
    async with open_journal() as journal:
        await journal.begin(head("a"))
        data = [b"x" * (PAGE.bytes // 3)] * 10 + [b"y"] * 1000 + [b"z" * PAGE.bytes * 2]
        await journal.append("a", data)
        last = 0
        async with aclosing(journal.read("a", 0)) as pages:
            async for page in pages:
                assert len(page) <= PAGE.entries
                assert len(page) == 1 or sum(len(entry.data) for entry in page) <= PAGE.bytes
                assert page[0].id == last + 1
                last = page[-1].id
                if last == len(data):
                    break


async def test_finished_runs_are_removed_after_their_retention_and_readers_get_an_error() -> None:
    now = [0.0]
    journal = MemoryJournal(retention_s=10, quiet_s=5, monotonic=lambda: now[0])
    for run in ("a", "b"):
        await journal.begin(head(run))
    await journal.append("a", [b"1"], is_last=True)
    reading = asyncio.create_task(read(journal, "a", 0, 2))
    now[0] = 9
    await journal.heartbeat("", [], [])
    assert await read(journal, "a", 0, 1) == [(1, b"1")]
    now[0] = 10
    await journal.heartbeat("", [], [])
    with pytest.raises(StreamUnknownError, match="more than 10 s ago"):
        await reading
    assert await journal.head("a") is None
    assert await journal.head("b") is not None
    assert journal.bytes == 0
    with pytest.raises(StreamError, match="Run b already exists"):
        await journal.begin(head("b"))


async def test_all_runs_together_are_bounded() -> None:
    journal = MemoryJournal(max_bytes=100)
    for run in ("a", "b", "c"):
        await journal.begin(head(run))
    await journal.append("a", [b"x" * 40], is_last=True)
    await journal.append("b", [b"x" * 10] * 4)
    await journal.append("c", [b"x" * 40])
    assert await journal.head("a") is None
    assert journal.bytes == 80
    await journal.append("c", [b"x" * 30])
    assert journal.bytes == 70  # the oldest entry of the writing run was dropped
    assert [number for number, _ in await read(journal, "b", 0, 4)] == [1, 2, 3, 4]
    await journal.append("c", [b"x" * 500])
    assert journal.bytes == 540  # the newest entry always stays
    await journal.aclose()
    assert journal.bytes == 0


async def test_a_tenant_with_many_events_removes_only_its_own_runs() -> None:
    journal = MemoryJournal(max_bytes=200, max_owner_bytes=100)
    for run, owner in (("old", "quiet"), ("a", "busy"), ("b", "busy")):
        await journal.begin(replace(head(run), owner=owner))
    await journal.append("old", [b"x" * 90], is_last=True)
    await journal.append("a", [b"x" * 60], is_last=True)
    reading = asyncio.create_task(read(journal, "a", 1, 1))
    await asyncio.sleep(0)
    await journal.append("b", [b"x" * 30] * 4)
    with pytest.raises(StreamError, match=r"have more than 100 bytes\."):
        await reading
    assert await journal.head("a") is None
    assert [number for number, _ in await read(journal, "b", 1, 3)] == [2, 3, 4]
    assert (await read(journal, "old", 0, 1), journal.bytes) == ([(1, b"x" * 90)], 180)
    await journal.aclose()
    assert journal.bytes == 0


def test_errors_name_the_lost_events_and_the_next_step() -> None:
    gap = gap_error("r1", 4, 40)
    assert (gap.first, "Events 5 to 39 of run r1 have been dropped" in str(gap)) == (40, True)
    assert "Continue from event 40" in str(gap)
    assert len(str(unknown_run("x" * 9000, 300, is_shared=True))) < 300
    assert "the server has been restarted" in str(unknown_run("a", 300, is_shared=False))
    assert "restarted" not in str(unknown_run("a", 300, is_shared=True))


async def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Invalid session store URL"):
        async with open_journal("mysql://x"):
            pass
