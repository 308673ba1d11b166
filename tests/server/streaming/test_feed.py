from __future__ import annotations

import asyncio

from server.streaming.feed import Feed, heard
from server.streaming.window import Bounds, Window


async def test_a_bell_wakes_all_who_took_it_before_and_nobody_later() -> None:
    feed = Feed(Window(Bounds(1, 1)))
    waiting = [asyncio.create_task(heard(feed.bell, 5)) for _ in range(3)]
    await asyncio.sleep(0)
    old = feed.bell
    feed.ring()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert await heard(old, 0)
    assert not await heard(feed.bell, 0.001)
