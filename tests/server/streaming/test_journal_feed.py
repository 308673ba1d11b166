from __future__ import annotations

import asyncio

from ragflow_lg.server.streaming.event_window import Bounds, Window
from ragflow_lg.server.streaming.journal_feed import Feed


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
