"""A journal in Redis Streams, readable by every replica.

An entry's id in its stream is ``NUMBER-0``. Redis therefore refuses an entry that is sent again because the reply was
lost, and a returning reader continues after the last number it has seen, so that nothing is lost or repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ragflow_lg.base.errors import SessionKeyError, StreamError
from ragflow_lg.base.tasks import SharedTask, keep_cancellation
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.key_ring import KeyRing, require_plain, run_domain
from ragflow_lg.server.streaming.journal import (
    MAX_RUN,
    PAGE,
    QUIET_S,
    RETENTION_S,
    Bounds,
    Entry,
    Extent,
    Feed,
    RunHead,
    Window,
    first_page,
    gap_error,
    unknown_run,
)

RECENT = Bounds(512, 256 * 1024)
"""The entries that a process caches for each run it executes or has followers for. Slower readers use Redis."""

ALIVE_S = 3.0
FOLLOWED_INTERVALS = 3
"""How many times ``alive_s`` a report about followers is valid."""
PATIENCE_S = 5.0
"""How long new events wait for a Redis server that does not respond."""
ASK_S = 3.0
"""How long all other commands wait, since a client is waiting for the reply."""
PAUSE_S = 0.02
MAX_PAUSE_S = 0.5
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
"""Adds entries atomically, unless another run manager has taken over the run. Entries already in Redis are skipped.
"""

_CLAIM = """
local head = redis.call('GET', KEYS[1])
local player = head and cjson.decode(head).player
if player and player ~= ARGV[1] and player ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
return 1
"""
"""Writes a run's head in one step, so that a process that dies meanwhile leaves a run that others can claim."""

_HEAD = msgspec.json.Decoder(RunHead)

logger = logging.getLogger(__name__)


class RedisJournal:
    """A journal with one stream per run, ``{prefix}agent:events:{run}``, and keys for its head, player and followers.

    While Redis does not respond, new events wait up to ``patience_s`` and other commands up to ``ask_s``, then fail.
    While it responds, they wait for their turn.
    """

    is_shared = True

    def __init__(
        self,
        client: Redis,
        prefix: str = "",
        max_run: Bounds = MAX_RUN,
        *,
        retention_s: float = RETENTION_S,
        alive_s: float = ALIVE_S,
        patience_s: float = PATIENCE_S,
        ask_s: float = ASK_S,
        quiet_s: float = QUIET_S,
        keys: KeyRing | None = None,
    ) -> None:
        """Initialize the journal.

        Args:
            client: A client that returns bytes. The caller closes it.
            prefix: Prefix for all keys.
            max_run: Limits on the data stored for one run.
            retention_s: How long a finished run's events are stored.
            alive_s: How long a run manager is considered alive after a report.
            patience_s: How long new events wait for Redis.
            ask_s: How long other commands wait for Redis.
            quiet_s: How long a reader waits before it receives an empty page.
            keys: Encrypts the entries.
        """
        self._client = cast("Any", client)
        self._prefix = prefix
        self._max_run = max_run
        self._recent = Bounds(min(RECENT.entries, max_run.entries), min(RECENT.bytes, max_run.bytes))
        self.retention_s = retention_s
        self._alive_s = alive_s
        self._patience_s = patience_s
        self._ask_s = min(ask_s, patience_s)
        self._quiet_s = quiet_s
        self._feeds: dict[str, Feed] = {}
        self._writing: dict[str, Extent] = {}
        """The extents of our own runs' streams."""
        self._unsure: set[str] = set()
        """Our own runs whose last entries Redis may have stored or not."""
        self._players: dict[str, str] = {}
        """The run managers executing our own runs, by run."""
        self._keys = keys
        self._tail = RedisTail(client, self._stream_key, self._parse)

    async def begin(self, head: RunHead, *, is_elsewhere: bool = False) -> None:
        """Create a run's stream."""
        # The process that writes the stream may have been faster than the one that has ordered it.
        key, data = self._head_key(head.run_id), msgspec.json.encode(head)
        await self._ask(lambda: self._client.set(key, data, px=self._ttl_ms, nx=is_elsewhere))
        if is_elsewhere:
            return
        self._players[head.run_id], self._writing[head.run_id] = head.player, Extent(self._max_run)
        self._feeds[head.run_id] = Feed(Window(self._recent), self._quiet_s)

    async def claim(self, head: RunHead, previous: str) -> bool:
        """Claim a run from a run manager that has stopped, unless another one has claimed it."""
        run_id, data = head.run_id, msgspec.json.encode(head)
        claim = (_CLAIM, 1, self._head_key(run_id), previous, head.player, data, self._ttl_ms)
        # The head comes first, so that from now on the previous run manager cannot add entries if it resumes.
        if not await self._ask(lambda: self._client.eval(*claim)):
            return False
        extent = await self._stored_extent(run_id)
        self._players[run_id], self._writing[run_id] = head.player, extent
        self._tail.leave(run_id)  # this process now writes the entries itself
        window = Window(self._recent, extent.last)  # readers take what is before from Redis: a tail may have missed it
        self._feeds.setdefault(run_id, Feed(window, self._quiet_s)).window = window
        return True

    async def _stored_extent(self, run_id: str) -> Extent:
        last, count = await self.tail(run_id), await self._ask(lambda: self._client.xlen(self._stream_key(run_id)))
        return Extent(self._max_run, last.id if last is not None else 0, count)

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries and trim the oldest ones in one round trip."""
        try:
            if run_id in self._unsure:  # a reader would wait for a number that no entry has
                self._writing[run_id] = stored = await self._stored_extent(run_id)
                self._feeds[run_id].window = Window(self._recent, stored.last)
            self._unsure.add(run_id)
            await self._append(run_id, data)
            self._unsure.discard(run_id)
        finally:
            if is_last:
                self._unsure.discard(run_id)
                del self._writing[run_id], self._players[run_id]
                if not self._feeds[run_id].readers:
                    del self._feeds[run_id]

    async def _append(self, run_id: str, data: Sequence[bytes]) -> None:
        extent, feed = self._writing[run_id], self._feeds[run_id]
        entries = [Entry(number, each) for number, each in enumerate(data, extent.last + 1)]
        for entry in entries:
            extent.add(len(entry.data))
        if not await self._ask(lambda: self._send(run_id, entries, extent.first), self._patience_s):
            raise StreamError(f"Another server has taken over run {run_id}; this one is no longer running it.")
        feed.window.add(entries)
        feed.ring()

    async def _send(self, run_id: str, entries: Sequence[Entry], first: int) -> bool:
        """Add entries. Return False if another run manager has claimed the run."""
        keys = (self._stream_key(run_id), self._head_key(run_id))
        begin = entries[0].id if entries else 0
        data = [self._store(run_id, entry) for entry in entries]
        return bool(await self._client.eval(_SEND, 2, *keys, self._players[run_id], self._ttl_ms, first, begin, *data))

    def _store(self, run_id: str, entry: Entry) -> bytes:
        """Return the data of an entry as it is stored: encrypted if there are keys."""
        if self._keys is None:
            return entry.data
        return self._keys.encrypt(run_domain(run_id), ["event", str(entry.id)], entry.data)

    def _parse(self, run_id: str, reply: Any) -> Entry:
        number, data = parse_entry(reply)
        try:
            if self._keys is None:
                require_plain(data)
            else:
                data = self._keys.decrypt(run_domain(run_id), ["event", str(number)], data)
        except SessionKeyError as error:
            raise StreamError(f"The events of run {run_id} cannot be read. {error}") from error
        return Entry(number, data)

    async def head(self, run_id: str) -> RunHead | None:
        """Return a run's head."""
        data = await self._ask(lambda: self._client.get(self._head_key(run_id)))
        if data is None:
            return None
        try:
            return _HEAD.decode(data)
        except msgspec.MsgspecError as error:
            raise StreamError(f"The stored head for run {run_id} cannot be read: {error}.") from error

    async def tail(self, run_id: str) -> Entry | None:
        """Return the newest entry."""
        entries = await self._ask(lambda: self._client.xrevrange(self._stream_key(run_id), count=1))
        return self._parse(run_id, entries[0]) if entries else None

    async def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Yield the entries and wait for more."""
        feed = await self._open_feed(run_id)
        feed.readers += 1
        is_sure = False
        try:
            while True:
                additions = feed.additions
                page = feed.window.page(after)
                if page is None:
                    page = await self._read_page(run_id, after)
                    if not page:
                        raise unknown_run(run_id, self.retention_s, is_shared=True)
                elif not page and not is_sure:
                    page, is_sure = await self._read_news(run_id, after), True
                if page:
                    after = page[-1].id
                    yield page
                elif not await feed.wait(additions):
                    # Report a quiet period only if Redis has no new entries either.
                    if page := await self._read_news(run_id, after):
                        after = page[-1].id
                    yield page
        finally:
            feed.readers -= 1
            if not feed.readers and run_id not in self._writing:
                self._tail.leave(run_id)
                self._feeds.pop(run_id, None)

    async def _open_feed(self, run_id: str) -> Feed:
        if run_id not in self._feeds:
            tail = await self.tail(run_id)
            if run_id not in self._feeds:  # no other reader was faster
                # Start a page before the end, so that the tail also delivers the newest stored entries.
                last = max(tail.id - PAGE.entries, 0) if tail is not None else 0
                feed = self._feeds[run_id] = Feed(Window(self._recent, last), self._quiet_s)
                self._tail.join(run_id, feed)
        return self._feeds[run_id]

    async def _read_news(self, run_id: str, after: int) -> list[Entry]:
        """Read entries for other processes' runs from Redis. Our own runs are fully known."""
        return [] if run_id in self._writing else await self._read_page(run_id, after)

    async def _read_page(self, run_id: str, after: int) -> list[Entry]:
        """Read a page from Redis."""
        replies = await self._ask(
            lambda: self._client.xrange(self._stream_key(run_id), min=f"{after + 1}-0", count=PAGE.entries)
        )
        entries = [self._parse(run_id, each) for each in replies]
        if entries and entries[0].id != after + 1:
            raise gap_error(run_id, after, entries[0].id)
        return first_page(entries)

    async def heartbeat(self, player: str, own_runs: Collection[str], followed_runs: Collection[str]) -> None:
        """Report that a run manager is alive, which runs it is executing and which it has followers for."""
        alive_ms = int(self._alive_s * 1000)

        async def send() -> None:
            async with self._client.pipeline(transaction=False) as together:
                together.set(self._player_key(player), "x", px=alive_ms)
                for run_id in own_runs:
                    together.pexpire(self._head_key(run_id), self._ttl_ms)
                    together.pexpire(self._stream_key(run_id), self._ttl_ms)
                for run_id in followed_runs:
                    together.set(self._followers_key(run_id), "x", px=FOLLOWED_INTERVALS * alive_ms)
                    together.pexpire(self._head_key(run_id), self._ttl_ms)  # the run may wait for a worker
                    together.pexpire(self._stream_key(run_id), self._ttl_ms)
                await together.execute()

        await self._ask(send)

    async def retire(self, player: str) -> None:
        """Report that a run manager has stopped."""
        await self._ask(lambda: self._client.delete(self._player_key(player)))

    async def alive(self, players: Collection[str]) -> set[str]:
        """Return those run managers that have reported within ``alive_s``."""
        if not players:
            return set()
        names = list(players)
        found = await self._ask(lambda: self._client.mget([self._player_key(name) for name in names]))
        return {name for name, report in zip(names, found, strict=True) if report is not None}

    def wake(self, run_id: str) -> None:
        """Send readers of a run an empty page if there are no new entries."""
        if (feed := self._feeds.get(run_id)) is not None:
            feed.ring_quietly()

    async def is_followed(self, run_id: str) -> bool:
        """Check whether another replica has, or recently had, followers."""
        return bool(await self._ask(lambda: self._client.exists(self._followers_key(run_id))))

    async def note_read(self, run_id: str) -> None:
        """Note that a client has had the end of a run."""
        await self._ask(lambda: self._client.set(self._read_key(run_id), "x", px=self._ttl_ms))

    async def is_read(self, run_id: str) -> bool:
        """Return whether a client has had the end of a run."""
        return bool(await self._ask(lambda: self._client.exists(self._read_key(run_id))))

    async def aclose(self) -> None:
        """Stop listening."""
        await self._tail.aclose()

    async def _ask(self, call: Callable[[], Awaitable[Any]], patience_s: float = 0.0) -> Any:
        """Run a command, and run it again while Redis does not respond."""
        failure: Exception = TimeoutError()
        pause_s = PAUSE_S
        try:
            async with asyncio.timeout(patience_s or self._ask_s):
                while True:
                    try:
                        with keep_cancellation():  # also that of the time limit
                            return await call()
                    except _PASSING as error:
                        failure = error
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, MAX_PAUSE_S)
        except TimeoutError:
            raise _failed(failure) from failure
        except RedisError as error:
            raise _failed(error) from error

    @property
    def _ttl_ms(self) -> int:
        return int(max(self.retention_s, 2 * self._alive_s) * 1000)

    def _player_key(self, player: str) -> str:
        return f"{self._prefix}agent:player:{player}"

    def _stream_key(self, run_id: str) -> str:
        return f"{self._prefix}agent:events:{run_id}"

    def _head_key(self, run_id: str) -> str:
        return f"{self._prefix}agent:events-head:{run_id}"

    def _followers_key(self, run_id: str) -> str:
        return f"{self._prefix}agent:events-followed:{run_id}"

    def _read_key(self, run_id: str) -> str:
        return f"{self._prefix}agent:events-read:{run_id}"


def _failed(error: Exception) -> StreamError:
    logger.warning("event journal failed: %s", plain_reason(error))
    return StreamError(f"The event journal failed: {plain_reason(error)}")


BLOCK_MS = 100
"""How long one read blocks. Entries for a newly added run are delayed by at most this long."""


class RedisTail:
    """Copies new entries of streams into their feeds."""

    def __init__(self, client: Redis, key_of: Callable[[str], str], parse: Callable[[str, Any], Entry]) -> None:
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
                await asyncio.sleep(MAX_PAUSE_S)

    async def _read(self) -> None:
        feeds = {self._key_of(run_id).encode(): (run_id, feed) for run_id, feed in self._feeds.items()}
        places = {key: f"{feed.window.last}-0" for key, (_, feed) in feeds.items()}
        answer: Any = await self._client.xread(places, count=PAGE.entries, block=BLOCK_MS)
        for key, replies in _pairs(answer):
            run_id, feed = feeds[key]
            feed.window.add([self._parse(run_id, each) for each in replies])
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
