import asyncio

import pytest

from ragflow_lg.server.streaming.journal import (
    PAGE,
    Bounds,
    Entry,
    Extent,
    Feed,
    Window,
    first_page,
    gap_error,
    unknown_run,
)


def test_errors_name_the_lost_events_and_the_next_step() -> None:
    gap = gap_error("r1", 4, 40)
    assert gap.first == 40
    assert "Events 5 to 39 of run r1 have been dropped" in str(gap)
    assert "Continue from event 40" in str(gap)
    assert len(str(unknown_run("x" * 9000, 300, is_shared=True))) < 300


def test_only_events_in_memory_are_lost_with_a_restart() -> None:
    assert "the server has been restarted" in str(unknown_run("a", 300, is_shared=False))
    assert "restarted" not in str(unknown_run("a", 300, is_shared=True))


async def test_an_addition_wakes_all_readers_that_had_not_seen_it() -> None:
    feed = Feed(Window(Bounds(1, 1)), 0.02)
    old = feed.additions
    waiting = [asyncio.create_task(feed.wait(old)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.ring()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await feed.wait(old)
    assert not await feed.wait(feed.additions)  # a quiet period
    assert not await feed.wait(feed.additions)  # and another one


def entries(*numbers: int, size: int = 10) -> list[Entry]:
    return [Entry(number, b"x" * size) for number in numbers]


@pytest.mark.parametrize(
    ("bounds", "first"), [(Bounds(3, 1000), 8), (Bounds(100, 45), 7), (Bounds(100, 5), 10), (Bounds(100, 1000), 1)]
)
def test_the_newest_entries_stay_within_the_bounds(bounds: Bounds, first: int) -> None:
    window, extent = Window(bounds), Extent(bounds)
    for number in range(1, 11):
        window.add(entries(number))
        extent.add(10)
    assert (window.first, window.last, window.bytes) == (first, 10, 10 * (11 - first))
    assert (extent.first, extent.last) == (first, 10)
    assert [entry.id for entry in window.page(first - 1) or ()] == list(range(first, 11))
    assert window.page(10) == window.page(99) == []
    if first > 1:
        assert window.page(first - 2) is None


def test_known_entries_are_skipped_and_a_gap_drops_older_ones() -> None:
    window = Window(Bounds(100, 1000))
    window.add(entries(1, 2, 2, 1, 3))
    assert [entry.id for entry in window.page(0) or ()] == [1, 2, 3]
    window.add(entries(7, 8))
    assert (window.first, window.last, window.bytes) == (7, 8, 20)
    assert window.page(3) is None


def test_a_page_is_bounded_but_never_empty() -> None:
    window = Window(Bounds(10_000, 1 << 30), 5)
    window.add(entries(*range(6, 500)))
    assert len(window.page(5) or ()) == PAGE.entries
    huge = entries(1, 2, size=PAGE.bytes + 1)
    assert first_page(huge) == huge[:1]
    assert len(first_page(entries(*range(1, 9), size=PAGE.bytes // 4))) == 4
    assert first_page([]) == []
