"""Reads new entries for runs in other processes, using one task and one connection for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.server.streaming.journal import PAGE, Entry, Feed

BLOCK_MS = 100
"""How long one read blocks. Entries for a newly added run are delayed by at most this long."""

PAUSE_S = 0.1


class RedisTail:
    """Copies new entries of streams into their feeds."""

    def __init__(
        self, client: Redis, key_of: Callable[[str], str], parse: Callable[[str, Any], Awaitable[Entry]]
    ) -> None:
        """``parse`` converts an entry of a run as Redis returns it."""
        self._client = cast("Any", client)
        self._key_of = key_of
        self._parse = parse
        self._feeds: dict[str, Feed] = {}
        self._task = SharedTask(self._listen)

    def join(self, run_id: str, feed: Feed) -> None:
        """Update a feed from now on."""
        self._feeds[run_id] = feed
        self._task.start()

    def leave(self, run_id: str) -> None:
        """Stop updating a feed."""
        self._feeds.pop(run_id, None)

    async def aclose(self) -> None:
        """Stop listening."""
        self._feeds.clear()
        await self._task.aclose()

    async def _listen(self) -> None:
        while self._feeds:
            try:
                await self._read()
            except (RedisError, OSError, StreamError):
                # After a quiet period readers query Redis themselves and report the error.
                await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        feeds = {self._key_of(run_id).encode(): (run_id, feed) for run_id, feed in self._feeds.items()}
        places = {key: f"{feed.window.last}-0" for key, (_, feed) in feeds.items()}
        answer: Any = await self._client.xread(places, count=PAGE.entries, block=BLOCK_MS)
        for key, replies in _pairs(answer):
            run_id, feed = feeds[key]
            feed.window.add([await self._parse(run_id, each) for each in replies])
            feed.ring()


def _pairs(answer: Any) -> list[tuple[bytes, list[Any]]]:
    """Return each stream's key and entries. With RESP3, the reply is a map with the entries one level deeper."""
    if isinstance(answer, dict):
        streams = cast("dict[bytes, list[list[Any]]]", answer)
        return [(key, [entry for part in parts for entry in part]) for key, parts in streams.items()]
    return list(answer or ())


def parse_entry(reply: Any) -> tuple[int, bytes]:
    """Return the number and the data of an entry, as Redis returns it.

    Raises:
        StreamError: If the journal did not write it.
    """
    with suppress(ValueError, LookupError, AttributeError, TypeError):
        return int(reply[0].partition(b"-")[0]), reply[1][b"e"]
    raise StreamError("An entry in Redis was not written by the journal.")
