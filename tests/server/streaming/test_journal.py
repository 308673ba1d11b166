import asyncio

from ragflow_lg.server.streaming.event_window import Bounds, Window
from ragflow_lg.server.streaming.journal import Feed, gap_error, unknown_run


def test_errors_name_the_lost_events_and_the_next_step() -> None:
    gap = gap_error("r1", 4, 40)
    assert gap.first == 40
    assert "Events 5 to 39 of run r1 have been dropped" in str(gap)
    assert "Continue from event 40" in str(gap)
    assert len(str(unknown_run("x" * 9000, 300))) < 300


async def test_a_bell_wakes_all_readers_that_fetched_it_before_it_rang() -> None:
    feed = Feed(Window(Bounds(1, 1)), 0.02)
    old = feed.bell
    waiting = [asyncio.create_task(feed.wait_for(old)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.ring()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await feed.wait_for(old)
    assert not await feed.wait_for(feed.bell)  # a quiet period
    assert not await feed.wait_for(feed.bell)  # and another one
