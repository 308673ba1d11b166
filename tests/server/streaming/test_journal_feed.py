from __future__ import annotations

import asyncio

from ragflow_lg.server.streaming.event_window import Bounds, Window
from ragflow_lg.server.streaming.journal_feed import Feed


async def test_a_bell_wakes_all_who_took_it_before_and_nobody_later() -> None:
    feed = Feed(Window(Bounds(1, 1)), 0.02)
    old = feed.bell
    waiting = [asyncio.create_task(feed.heard(old)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.ring()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await feed.heard(old)
    assert not await feed.heard(feed.bell)  # silence
    assert not await feed.heard(feed.bell)  # and again
