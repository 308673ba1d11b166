"""Hearing of new entries of runs that other processes play: one task and one connection for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.event_window import PAGE, Entry
from ragflow_lg.server.streaming.journal_feed import Feed
from ragflow_lg.server.streaming.task_cancellation import end_task

__all__ = ["RedisTail", "entry_of"]

BLOCK_MS = 100
"""How long Redis is listened to at a stretch; a run that joins is heard of no later than this."""

PAUSE_S = 0.1


class RedisTail:
    """Puts what is new in streams into the feeds that stand for them."""

    def __init__(self, client: Redis, key_of: Callable[[str], str]) -> None:
        self._client = cast("Any", client)
        self._key_of = key_of
        self._feeds: dict[str, Feed] = {}
        self._task: asyncio.Task[None] | None = None

    def join(self, run_id: str, feed: Feed) -> None:
        """Keep a feed up to date from now on."""
        self._feeds[run_id] = feed
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())

    def leave(self, run_id: str) -> None:
        """Let a feed be."""
        self._feeds.pop(run_id, None)

    async def aclose(self) -> None:
        """Stop listening."""
        self._feeds.clear()
        if self._task is not None:
            await end_task(self._task)

    async def _listen(self) -> None:
        while self._feeds:
            try:
                await self._hear()
            except (RedisError, OSError, StreamError):
                # Readers ask Redis themselves when they have heard nothing for a while, and tell what is wrong.
                await asyncio.sleep(PAUSE_S)

    async def _hear(self) -> None:
        feeds = {self._key_of(run_id).encode(): feed for run_id, feed in self._feeds.items()}
        places = {key: f"{feed.window.last}-0" for key, feed in feeds.items()}
        answer: Any = await self._client.xread(places, count=PAGE.entries, block=BLOCK_MS)
        for key, found in _pairs(answer):
            feed = feeds[key]
            feed.window.add(entry_of(each) for each in found)
            feed.ring()


def _pairs(answer: Any) -> list[tuple[bytes, list[Any]]]:
    """Give key and entries; a client that speaks the newer protocol has a map, and the entries one level deeper."""
    if isinstance(answer, dict):
        found = cast("dict[bytes, list[list[Any]]]", answer)
        return [(key, [entry for part in parts for entry in part]) for key, parts in found.items()]
    return list(answer or ())


def entry_of(found: Any) -> Entry:
    """Read an entry as Redis gives it.

    Raises:
        StreamError: if it is none of ours.
    """
    with suppress(ValueError, LookupError, AttributeError, TypeError):
        return Entry(int(found[0].partition(b"-")[0]), found[1][b"e"])
    raise StreamError("An entry in Redis is none of the journal's.")
