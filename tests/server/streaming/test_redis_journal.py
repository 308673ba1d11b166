import asyncio
import time
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from ragflow_lg.base.errors import StreamError, StreamUnknownError
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.server.streaming.journal import Bounds
from ragflow_lg.server.streaming.redis_journal import RedisJournal
from ragflow_lg.services.encryption import EncryptionKey
from tests.fakes.cut_proxy import cut_proxy
from tests.server.streaming.journals import OpenJournal, connect, head, read, redis_journal
from tests.stores import fresh_prefix


async def test_keys_have_the_prefix_and_a_time_to_live_and_are_trimmed(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_journal(redis_url, prefix, Bounds(5, 1 << 20)) as journal, connect(redis_url) as client:
        await journal.begin(head("a"))
        for number in range(20):
            await journal.append("a", [b"%d" % number])
        await client.xadd(f"{prefix}agent:events:b", {"d": "x"}, id="1-0")
        await journal.heartbeat("run_manager", ["a"], ["b"])
        keys = [key async for key in client.scan_iter(f"{prefix}*")]
        assert len(keys) == 5
        assert all([0 < await client.pttl(key) <= 60_000 for key in keys])
        assert await client.xlen(f"{prefix}agent:events:a") == 5
        assert await journal.alive(["run_manager", "other"]) == {"run_manager"}
        assert await journal.is_followed("b")
        assert not await journal.is_followed("a")


async def test_a_lost_reply_or_a_cut_connection_loses_and_repeats_nothing(redis_url: str) -> None:
    prefix = fresh_prefix()
    expected = [(number, b"%d" % number) for number in range(1, 301)]
    async with AsyncExitStack() as stack:
        writing, reading = [await stack.enter_async_context(cut_proxy(redis_url)) for _ in range(2)]
        here = await stack.enter_async_context(redis_journal(writing.url, prefix))
        there = await stack.enter_async_context(redis_journal(reading.url, prefix))
        await here.begin(head("a"))
        readers = [asyncio.create_task(read(there, "a", 0, 300)) for _ in range(3)]
        for number in range(1, 301):
            if number % 100 == 50:
                writing.drops_next_reply = True
            elif number == 120:
                reading.cut()
            elif number == 180:
                reading.restore()
            elif number == 220:
                writing.cut()
                asyncio.get_running_loop().call_later(0.05, writing.restore)
            await here.append("a", [b"%d" % number])
        assert await asyncio.gather(*readers) == [expected] * 3
        async with connect(redis_url) as client:
            assert await client.xlen(f"{prefix}agent:events:a") == 300


async def test_writers_and_readers_get_an_error_if_redis_stays_away(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(cut_proxy(redis_url))
        here = await stack.enter_async_context(redis_journal(redis_url, prefix))
        there = await stack.enter_async_context(redis_journal(proxy.url, prefix, patience_s=1, quiet_s=0.05))
        await here.begin(head("a"))
        await here.append("a", [b"1"])
        await there.begin(head("b"))
        assert await read(there, "a", 0, 1) == [(1, b"1")]
        reading = asyncio.create_task(read(there, "a", 0, 2))
        await asyncio.sleep(0.02)
        proxy.cut()
        start_s = time.monotonic()
        with pytest.raises(StreamError, match="The event journal failed"):
            await there.append("b", [b"1"])
        with pytest.raises(StreamError, match="The event journal failed"):
            await reading
        assert time.monotonic() - start_s < 20


async def test_foreign_data_in_redis_is_reported(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_journal(redis_url, prefix, patience_s=0.1) as journal, connect(redis_url) as client:
        await client.set(f"{prefix}agent:events-head:a", b'{"player":1}')
        with pytest.raises(StreamError, match="The stored head for run a cannot be read"):
            await journal.head("a")
        await client.xadd(f"{prefix}agent:events:a", {"x": "1"}, id="1-0")
        with pytest.raises(StreamError, match="not written by the journal"):
            await read(journal, "a", 0, 1)
        await client.delete(f"{prefix}agent:events:a")
        await client.set(f"{prefix}agent:events:a", "no stream")
        with pytest.raises(StreamError, match="WRONGTYPE"):
            await journal.tail("a")


async def test_a_run_deleted_from_redis_is_reported(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_journal(redis_url, prefix, Bounds(2, 1 << 20)) as journal, connect(redis_url) as client:
        await journal.begin(head("a"))
        await journal.append("a", [b"1", b"2", b"3"])
        await client.delete(f"{prefix}agent:events:a")
        with pytest.raises(StreamUnknownError, match="There are no events for run 'a'"):
            await read(journal, "a", 0, 1)


async def test_a_run_is_claimed_once_and_its_previous_player_can_add_nothing(open_replica: OpenJournal) -> None:
    async with open_replica() as old, open_replica() as new, open_replica() as late:
        await old.begin(head("a"))
        await old.append("a", [b"1", b"2"])
        claimed = replace(head("a"), player="new")
        assert await new.claim(claimed, "run_manager")
        assert not await late.claim(replace(claimed, player="late"), "run_manager")
        assert await new.claim(claimed, "run_manager")  # sent again after a lost reply
        assert await late.head("a") == claimed
        with pytest.raises(StreamError, match="Another server has taken over run a"):
            await old.append("a", [b"x"] * 5)
        await new.append("a", [b"3"])
        with pytest.raises(StreamError, match="has taken over"):
            await old.append("a", [b"y"], is_last=True)
        await new.append("a", [b"4"], is_last=True)
        assert await read(late, "a", 0, 4) == [(number, b"%d" % number) for number in range(1, 5)]
        assert await late.claim(replace(claimed, player="late"), "new")  # the second player may stop as well


async def test_a_death_during_a_claim_leaves_the_run(
    open_replica: OpenJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, left = RedisJournal._ask, 0  # pyright: ignore[reportPrivateUsage]

    async def ask_some(self: RedisJournal, call: Any, patience_s: float = 0.0) -> Any:
        nonlocal left
        if left == 0:
            raise asyncio.CancelledError
        left -= 1
        return await ask(self, call, patience_s)

    async with open_replica() as old, open_replica() as dying, open_replica() as late:
        for commands in range(6):
            run = head(str(commands))
            await old.begin(run)
            await old.append(str(commands), [b"1"])
            left = commands
            with monkeypatch.context() as patch, suppress(asyncio.CancelledError):
                patch.setattr(RedisJournal, "_ask", ask_some)
                await dying.claim(replace(run, player="dying"), "run_manager")
            player = ((await late.head(str(commands))) or run).player
            assert await late.claim(replace(run, player="late"), player)
            await late.append(str(commands), [b"2"], is_last=True)
            assert await read(late, str(commands), 0, 2) == [(1, b"1"), (2, b"2")]


async def test_an_outage_leaves_no_hole_before_the_end(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with (
        cut_proxy(redis_url) as proxy,
        redis_journal(proxy.url, prefix, patience_s=0.5) as here,
        redis_journal(redis_url, prefix) as there,
    ):
        await here.begin(head("a"))
        await here.append("a", [b"one"])
        proxy.cut()
        with pytest.raises(StreamError):
            await here.append("a", [b"lost"])
        proxy.restore()
        await here.append("a", [b"end"], is_last=True)
        assert await read(there, "a", 0, 2) == [(1, b"one"), (2, b"end")]


async def test_a_silent_redis_delays_no_caller_however_many_there_are() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with (
        connect(url, retry=Retry(NoBackoff(), 0), socket_timeout=0.2) as client,
        aclosing(RedisJournal(client, ask_s=0.1)) as journal,
    ):
        start_s = time.monotonic()
        failures = await asyncio.gather(*[journal.head(str(number)) for number in range(100)], return_exceptions=True)
        assert {str(failure) for failure in failures} == {"The event journal failed: it did not answer in time."}
        assert time.monotonic() - start_s < 8
    silent.close()


class SwallowingClient:
    """A client of Redis that takes a cancellation for its own timeout, as redis-py does when both come at once."""

    async def get(self, key: str) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RedisTimeoutError from None


async def test_a_swallowed_cancellation_ends_the_wait() -> None:
    client: Any = SwallowingClient()
    async with asyncio.timeout(20):
        with pytest.raises(StreamError, match="did not answer in time"):
            await RedisJournal(client, ask_s=0.05).head("a")
        reading = asyncio.create_task(RedisJournal(client, ask_s=60).head("a"))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_entries_are_encrypted_in_redis(redis_url: str) -> None:
    prefix, keys = fresh_prefix(), make_key_ring([EncryptionKey("k", b"k" * 32)])
    async with redis_journal(redis_url, prefix, keys=keys) as journal:
        await journal.begin(head("r"))
        await journal.append("r", [b"secret one", b"secret two"])
        async with redis_journal(redis_url, prefix, keys=keys) as other:  # another process reads them from Redis
            assert await read(other, "r", 0, 2) == [(1, b"secret one"), (2, b"secret two")]
            await journal.append("r", [b"secret three"], is_last=True)
            assert await read(other, "r", 2, 1) == [(3, b"secret three")]
            last = await other.tail("r")
            assert last is not None
            assert last.data == b"secret three"
        async with connect(redis_url) as client:
            stored = await client.xrange(f"{prefix}agent:events:r")
            assert b"secret" not in b"".join(fields[b"e"] for _, fields in stored)
            await client.xadd(f"{prefix}agent:events:r", {"e": stored[0][1][b"e"]}, id="4-0")
        for wrong in (None, make_key_ring([EncryptionKey("k", b"?" * 32)])):
            async with redis_journal(redis_url, prefix, keys=wrong) as other:
                with pytest.raises(StreamError, match="key 'k'"):
                    await read(other, "r", 0, 2)
        async with redis_journal(redis_url, prefix, keys=keys) as other:
            with pytest.raises(StreamError, match="the data has been changed"):
                await other.tail("r")


async def test_readers_that_leave_release_their_feeds(open_replica: OpenJournal) -> None:
    async with open_replica() as here, open_replica() as there:
        await here.begin(head("a"))
        for round in range(1, 4):
            await here.append("a", [b"x"])
            assert await read(there, "a", round - 1, 1) == [(round, b"x")]
            assert there._feeds == there._tail._feeds == {}
