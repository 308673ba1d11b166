"""Events of runs in Redis Streams, so that any replica can read them.

An entry's id in its stream is ``NUMBER-0``. So one that is sent again, because the answer of Redis was lost, is
refused, and a reader that comes back asks for what is behind the last number it has seen: nothing is lost, nothing
repeated.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ragflow_lg.base.errors import StreamError
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.server.streaming.event_window import PAGE, Bounds, Entry, Extent, Window, paged
from ragflow_lg.server.streaming.journal import KEPT_S, MAX_RUN, QUIET_S, RunHead, gap_error, unknown_run
from ragflow_lg.server.streaming.journal_feed import Feed
from ragflow_lg.server.streaming.redis_tail import RedisTail, entry_of

__all__ = ["RedisJournal"]

RECENT = Bounds(512, 256 * 1024)
"""What a process holds of each run that it plays or has followers of; who is further behind reads from Redis."""

ALIVE_S = 15.0
PATIENCE_S = 5.0
"""How long the events of a run wait for a Redis that does not answer."""
ASK_S = 3.0
"""How long anything else does: somebody waits for the answer."""
MAX_CONNECTIONS = 16
_PASSING = (RedisConnectionError, RedisTimeoutError, OSError)
_SEND = """
local head = redis.call('GET', KEYS[2])
if head and cjson.decode(head).player ~= ARGV[1] then return 0 end
for place = 5, #ARGV do
    local id = string.format('%.0f-0', ARGV[4] + place - 5)
    local added = redis.pcall('XADD', KEYS[1], id, 'e', ARGV[place])
    if type(added) == 'table' and added.err and not string.find(added.err, 'equal or smaller') then return added end
end
if tonumber(ARGV[3]) > 1 then redis.call('XTRIM', KEYS[1], 'MINID', ARGV[3] .. '-0') end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""
"""Adds entries in one step unless another run manager plays the run by now. Entries Redis already has are skipped."""

_HEAD = msgspec.json.Decoder(RunHead)

logger = logging.getLogger(__name__)


class RedisJournal:
    """One stream a run, ``{prefix}agent:events:{run}``, and beside it what the run is and who plays and follows it.

    While Redis does not answer, new events wait up to ``patience_s``, all else up to ``ask_s``, and fails then.
    """

    def __init__(
        self,
        client: Redis,
        prefix: str = "",
        max_run: Bounds = MAX_RUN,
        *,
        kept_s: float = KEPT_S,
        alive_s: float = ALIVE_S,
        patience_s: float = PATIENCE_S,
        ask_s: float = ASK_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        """``client`` returns bytes and stays its owner's; ``alive_s`` is how long one heartbeat counts."""
        self._client = cast("Any", client)
        self._prefix = prefix
        self._max_run = max_run
        self._recent = Bounds(min(RECENT.entries, max_run.entries), min(RECENT.bytes, max_run.bytes))
        self._kept_s = kept_s
        self._alive_s = alive_s
        self._patience_s = patience_s
        self._ask_s = min(ask_s, patience_s)
        self._quiet_s = quiet_s
        self._feeds: dict[str, Feed] = {}
        self._writing: dict[str, Extent] = {}
        """What the streams of our own runs hold."""
        self._players: dict[str, str] = {}
        """Which run manager plays them."""
        self._at_once = asyncio.Semaphore(MAX_CONNECTIONS)
        self._tail = RedisTail(client, self._stream)

    @property
    def kept_s(self) -> float:
        """For how long a run that has ended can be followed."""
        return self._kept_s

    async def begin(self, head: RunHead) -> None:
        """Open the entries of a run."""
        # Not "only if there is none": the answer may be lost, and the same asked again.
        await self._ask(lambda: self._client.set(self._head(head.run_id), msgspec.json.encode(head), px=self._ttl_ms))
        self._players[head.run_id], self._writing[head.run_id] = head.player, Extent(self._max_run)
        self._feeds[head.run_id] = Feed(Window(self._recent), self._quiet_s)

    async def claim(self, head: RunHead, was: str) -> bool:
        """Take a run over from a run manager that has stopped, unless another run manager has."""
        run_id, key = head.run_id, f"{self._prefix}agent:events-claim:{head.run_id}:{was}"
        await self._ask(lambda: self._client.set(key, head.player, nx=True, px=self._ttl_ms))
        if await self._ask(lambda: self._client.get(key)) != head.player.encode():
            return False
        # First: from here on the other run_manager, should it come to life again, can add nothing.
        await self._ask(lambda: self._client.set(self._head(run_id), msgspec.json.encode(head), px=self._ttl_ms))
        last, held = await self.tail(run_id), await self._ask(lambda: self._client.xlen(self._stream(run_id)))
        number = last.id if last is not None else 0
        self._players[run_id], self._writing[run_id] = head.player, Extent(self._max_run, number, held)
        self._tail.leave(run_id)  # from here on we know first
        self._feeds.setdefault(run_id, Feed(Window(self._recent, number), self._quiet_s))
        return True

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries in one round trip; the oldest ones go from the stream in the same."""
        kept, feed = self._writing[run_id], self._feeds[run_id]
        entries = [Entry(number, each) for number, each in enumerate(data, kept.last + 1)]
        for each in data:
            # Counted even if it fails: a number is never given to another entry.
            kept.add(len(each))
        try:
            if not await self._ask(lambda: self._send(run_id, entries, kept.first), self._patience_s):
                raise StreamError(f"Run {run_id} has been taken over by another server; this one stops playing it.")
            feed.window.add(entries)
            feed.ring()
        finally:
            if is_last:
                del self._writing[run_id], self._players[run_id]
                if not feed.readers:
                    del self._feeds[run_id]

    async def _send(self, run_id: str, entries: Sequence[Entry], first: int) -> bool:
        """Add entries; False if another run manager has taken the run over."""
        keys = (self._stream(run_id), self._head(run_id))
        begin = entries[0].id if entries else 0
        data = [entry.data for entry in entries]
        return bool(await self._client.eval(_SEND, 2, *keys, self._players[run_id], self._ttl_ms, first, begin, *data))

    async def head(self, run_id: str) -> RunHead | None:
        """Give what is known of a run."""
        held = await self._ask(lambda: self._client.get(self._head(run_id)))
        if held is None:
            return None
        try:
            return _HEAD.decode(held)
        except msgspec.MsgspecError as error:
            raise StreamError(f"What is stored of run {run_id} cannot be read: {error}.") from error

    async def tail(self, run_id: str) -> Entry | None:
        """Give the newest entry."""
        found = await self._ask(lambda: self._client.xrevrange(self._stream(run_id), count=1))
        return entry_of(found[0]) if found else None

    async def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Go through the entries, and wait for more."""
        feed = await self._feed(run_id)
        feed.readers += 1
        is_sure = False
        try:
            while True:
                bell = feed.bell
                page = feed.window.page(after)
                if page is None:
                    page = await self._stored(run_id, after)
                    if not page:
                        raise unknown_run(run_id, self._kept_s)
                elif not page and not is_sure:
                    page, is_sure = await self._news(run_id, after), True
                if page:
                    after = page[-1].id
                    yield page
                elif not await feed.heard(bell):
                    # Silence is told only if Redis has nothing either.
                    if page := await self._news(run_id, after):
                        after = page[-1].id
                    yield page
        finally:
            feed.readers -= 1
            if not feed.readers and run_id not in self._writing:
                self._tail.leave(run_id)
                self._feeds.pop(run_id, None)

    async def _feed(self, run_id: str) -> Feed:
        if run_id not in self._feeds:
            tail = await self.tail(run_id)
            if run_id not in self._feeds:  # nobody was quicker
                # From nothing, so that the tail of the stream also brings what is there: a page or two of it.
                last = max(tail.id - PAGE.entries, 0) if tail is not None else 0
                feed = self._feeds[run_id] = Feed(Window(self._recent, last), self._quiet_s)
                self._tail.join(run_id, feed)
        return self._feeds[run_id]

    async def _news(self, run_id: str, after: int) -> list[Entry]:
        """Ask Redis for what we have not heard of yet; of our own runs we know all."""
        return [] if run_id in self._writing else await self._stored(run_id, after)

    async def _stored(self, run_id: str, after: int) -> list[Entry]:
        """Read a page from Redis."""
        found = await self._ask(
            lambda: self._client.xrange(self._stream(run_id), min=f"{after + 1}-0", count=PAGE.entries)
        )
        entries = [entry_of(each) for each in found]
        if entries and entries[0].id != after + 1:
            raise gap_error(run_id, after, entries[0].id)
        return paged(entries)

    async def beat(self, player: str, played: Collection[str], followed: Collection[str]) -> None:
        """Say that a run manager lives, what it plays, and what it has followers of."""
        alive_ms = int(self._alive_s * 1000)

        async def send() -> None:
            async with self._client.pipeline(transaction=False) as together:
                together.set(f"{self._prefix}agent:player:{player}", "x", px=alive_ms)
                for run_id in played:
                    together.pexpire(self._head(run_id), self._ttl_ms)
                    together.pexpire(self._stream(run_id), self._ttl_ms)
                for run_id in followed:
                    together.set(self._followed(run_id), "x", px=alive_ms)
                await together.execute()

        await self._ask(send)

    async def is_alive(self, player: str) -> bool:
        """Tell whether a run manager has been heard of within ``alive_s``."""
        return bool(await self._ask(lambda: self._client.exists(f"{self._prefix}agent:player:{player}")))

    async def is_followed(self, run_id: str) -> bool:
        """Tell whether another replica has, or had within ``alive_s``, followers."""
        return bool(await self._ask(lambda: self._client.exists(self._followed(run_id))))

    async def aclose(self) -> None:
        """Stop listening."""
        await self._tail.aclose()

    async def _ask(self, call: Callable[[], Awaitable[Any]], patience_s: float = 0.0) -> Any:
        """Ask Redis, again and again while it does not answer; few ask at once."""
        until = time.monotonic() + (patience_s or self._ask_s)
        pause_s = 0.02
        try:
            # Only waiting is broken off: the client may swallow a cancellation. It has a time limit of its own.
            async with asyncio.timeout(until - time.monotonic()):
                await self._at_once.acquire()
        except TimeoutError as error:
            raise _failure(error) from error
        try:
            while True:
                try:
                    return await call()
                except _PASSING as error:
                    if time.monotonic() + pause_s > until:
                        raise _failure(error) from error
                except RedisError as error:
                    raise _failure(error) from error
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.5)
        finally:
            self._at_once.release()

    @property
    def _ttl_ms(self) -> int:
        return int(max(self._kept_s, 2 * self._alive_s) * 1000)

    def _stream(self, run_id: str) -> str:
        return f"{self._prefix}agent:events:{run_id}"

    def _head(self, run_id: str) -> str:
        return f"{self._prefix}agent:events-head:{run_id}"

    def _followed(self, run_id: str) -> str:
        return f"{self._prefix}agent:events-followed:{run_id}"


def _failure(error: Exception) -> StreamError:
    logger.warning("the journal of events fails: %s", error)
    return StreamError(f"The journal of events fails: {plain_reason(error)}")
