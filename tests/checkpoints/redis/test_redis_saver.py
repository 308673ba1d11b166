import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

import orjson
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError, DamagedSessionError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.redis.redis_client import CollectingRedis, collecting_writes, open_redis
from ragflow_lg.checkpoints.redis.redis_records import RedisRecords
from ragflow_lg.checkpoints.redis.redis_saver import RedisBlobs, RedisSaver, redis_saver
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey
from ragflow_lg.runs.stored_steps import CheckpointInfo
from ragflow_lg.services.sessions import RunRecord, with_lease_token
from tests.fakes.python_process import python_process
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import checkpoint_config, checkpoint_id, fresh_prefix, put_checkpoint, redis_client, redis_keys

THREAD = str(uuid.uuid4())
PLACE = checkpoint_config(THREAD)


async def saver_of(client: CollectingRedis, prefix: str, ttl_s: int = 60) -> tuple[CanvasSaver, RedisSessions]:
    """Create a saver, and the keys that it uses."""
    sessions = RedisSessions(client, prefix, ttl_s)
    return await redis_saver(client, sessions, prefix), sessions


async def test_a_write_checks_its_token_atomically(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix)
        lease = sessions.lease_key(session_of_thread(THREAD))
        await client.hset(lease, "token", "1")
        place = with_lease_token(await put_checkpoint(saver, with_lease_token(PLACE, 1)), 1)
        await client.hset(lease, "token", "2")
        with pytest.raises(ConflictError):
            await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        with pytest.raises(ConflictError):
            await put_checkpoint(saver, with_lease_token(PLACE, 1))
        await saver.aput_writes(with_lease_token(place, 2), [("outputs", {"a": 1})], "task")
        checkpoint = await saver.aget_tuple(PLACE)
        assert checkpoint is not None
        assert checkpoint.pending_writes == [("task", "outputs", {"a": 1})]


async def test_nothing_of_a_rejected_write_is_stored(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix)
        lease = sessions.lease_key(session_of_thread(THREAD))
        await client.hset(lease, "token", "2")
        with pytest.raises(ConflictError, match="Another runner"):
            await put_checkpoint(saver, with_lease_token(PLACE, 1), {"outputs": {"a": "x" * 9000}})
        await client.delete(lease)
        with pytest.raises(ConflictError, match="no longer holds"):
            await put_checkpoint(saver, with_lease_token(PLACE, 1), {"outputs": {"a": "x" * 9000}})
        assert await redis_keys(client, f"{prefix}*") == []


async def test_a_listing_has_several_pages(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.PAGE", 7)
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, prefix)
        places = [await put_checkpoint(saver, PLACE) for _ in range(21)]
        ids: list[str] = []
        async for checkpoint in saver.alist(PLACE):
            if len(ids) == 3:  # a new checkpoint moves the pages of a listing
                await put_checkpoint(saver, PLACE)
            ids.append(checkpoint.checkpoint["id"])
        assert ids == [checkpoint_id(place) for place in reversed(places)]


async def test_the_pages_of_a_listing_begin_small_and_stay_bounded(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counting(list_page: Callable[..., Awaitable[Sequence[Any]]]) -> Callable[..., Awaitable[Sequence[Any]]]:
        async def count(*arguments: Any) -> Sequence[Any]:
            page = await list_page(*arguments)
            sizes.append(len(page))
            return page

        return count

    monkeypatch.setattr(RedisSaver, "_search", counting(RedisSaver._search))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(RedisSessions, "list_checkpoints", counting(cast("Any", RedisSessions.list_checkpoints)))
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, fresh_prefix())
        newest = [checkpoint_id(await put_checkpoint(saver, PLACE)) for _ in range(340)][-1]
        for thread in (THREAD, None):  # a sorted set, and the search
            sizes.clear()
            async with aclosing(cast("Any", saver.list_keys(thread))) as keys:
                assert (await anext(keys)).checkpoint == newest
            assert sizes == [8]
            assert len([key async for key in saver.list_keys(thread)]) == 340
            assert sizes == [8, 8, 64, 256, 12]


async def test_the_sorted_set_of_a_thread_has_what_the_search_finds(redis_url: str) -> None:
    prefix = fresh_prefix()
    order = f"{prefix}checkpoint_order:{THREAD}"
    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix)

        async def listed() -> list[CheckpointKey]:
            keys = [key async for key in saver.list_keys(THREAD)]
            assert keys == [key async for key in saver.list_keys(None)]
            inner = [key async for key in saver.list_keys(THREAD, "Loop:0|a:b")]
            assert inner == [key for key in keys if key.namespace == "Loop:0|a:b"]
            return keys

        for number in range(12):
            place = PLACE if number % 3 else checkpoint_config(THREAD, "Loop:0|a:b")
            await saver.aput_writes(await put_checkpoint(saver, place), [("outputs", {"a": 1})], "task")
        keys = await listed()
        assert len(keys) == 12
        lives = [await client.pttl(key) for key in (order, sessions.blobs_key(THREAD))]
        assert abs(lives[0] - lives[1]) < 1000
        await client.delete(order)  # as in a thread that an earlier version has begun
        await put_checkpoint(saver, PLACE)
        assert await client.exists(order) == 0
        assert (await listed())[1:] == keys
        assert await client.pttl(order) > 0
        await saver.erase(keys[:6])
        assert len(await listed()) == 7
        await saver.adelete_thread(THREAD)
        assert await listed() == []
        assert await client.exists(order) == 0


async def test_a_session_with_more_than_ten_thousand_checkpoints_is_deleted_completely(redis_url: str) -> None:
    prefix, count = fresh_prefix(), 10_050
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, prefix, 600)
        stored_id = checkpoint_id(await put_checkpoint(saver, PLACE))
        (key,) = await redis_keys(client, f"{prefix}checkpoint:*")
        row: dict[str, Any] = orjson.loads(await client.execute_command("JSON.GET", key))
        pipeline = client.pipeline(transaction=False)
        for number in range(count):
            id_ = f"0000-{number:05}"
            pipeline.json().set(key.replace(stored_id, id_), "$", {**row, "checkpoint_id": id_})
            pipeline.sadd(f"{prefix}checkpoint_keys:{THREAD}", key.replace(stored_id, id_))
        await pipeline.execute()
        await saver.adelete_thread(THREAD)
        assert await redis_keys(client, f"{prefix}*") == []


async def test_all_keys_of_a_session_expire_together_and_reading_renews_them(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    config = checkpoint_config(thread)

    async def expiry_times(client: Redis) -> set[int]:
        keys = await redis_keys(client, f"{prefix}*") + await redis_keys(client, f"write_keys_zset:{thread}*")
        assert len(keys) >= 9
        untyped: Any = client
        return {await untyped.pexpiretime(key) for key in keys}

    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix, 3)
        runs = RedisRecords(client, sessions, prefix)
        await runs.put(RunRecord("r1", session_of_thread(thread), started_ms=1))
        for namespace in ("", "inner"):
            place = await put_checkpoint(saver, checkpoint_config(thread, namespace), {"outputs": {"a": "x" * 9000}})
            await saver.aput_writes(place, [("__interrupt__", [])], "task")
        before = await expiry_times(client)
        assert len(before) <= 2  # the session, and the index of all sessions
        await asyncio.sleep(1)
        await saver.aget_tuple(config)
        after = await expiry_times(client)
        assert len(after) <= 2
        assert min(after) > max(before)
        await asyncio.sleep(3.2)
        assert await redis_keys(client, f"{prefix}*") == []


async def test_a_session_that_has_lost_a_key_is_reported(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    config = checkpoint_config(thread)
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, prefix, 600)
        place = await put_checkpoint(saver, config, {"outputs": {"a": "x" * 9000}})
        await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        keys = await redis_keys(client, f"{prefix}*") + await redis_keys(client, f"write_keys_zset:{thread}*")
        keys.remove(f"{prefix}checkpoint_order:{thread}")  # it is made again from the others
        assert len(keys) == 6
        untyped: Any = client
        for key in keys:
            stored = await untyped.dump(key)
            await client.delete(key)
            with pytest.raises(CheckpointError, match="has lost a part"):
                await saver.aget_tuple(config)
            await untyped.restore(key, 0, stored)
        assert await saver.aget_tuple(config) is not None


async def test_a_failed_command_is_reported(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        _, sessions = await saver_of(client, fresh_prefix())
        key = fresh_prefix()
        with collecting_writes() as commands:
            pipeline = client.pipeline()
            pipeline.set(key, "text")
            assert await pipeline.execute() == [True]
            assert await client.zadd(key, {"x": 1}) is True
        assert await client.get(key) is None
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await sessions.write(THREAD, commands)
        await client.delete(key)


async def test_a_server_without_the_modules_is_rejected(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing_modules(url: str) -> list[str]:
        return ["search"]

    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_client.missing_modules", missing_modules)
    with pytest.raises(CheckpointError, match=r"search\. Use redis:8"):
        async with open_redis(redis_url):
            pass


async def test_several_processes_open_a_new_store_at_once(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        # All connections are open: the attempts overlap.
        await asyncio.gather(*(client.execute_command("PING") for _ in range(8)))
        savers = await asyncio.gather(*(saver_of(client, prefix) for _ in range(8)))
        for saver, _ in savers:
            await put_checkpoint(saver, checkpoint_config(str(uuid.uuid4())))


async def test_a_lost_server_is_reported(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, fresh_prefix())
        inner: Any = saver.inner
        inner._sessions._client = redis_client("redis://127.0.0.1:1")
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)


async def test_a_checkpoint_and_its_writes_are_read_in_one_command(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, fresh_prefix())
        place = await put_checkpoint(saver, PLACE, {"outputs": {"a": {"b": 1}}})
        await saver.aput_writes(place, [("outputs", {"c": 2}), ("outputs", {"d": 3})], "task")
        commands: list[str] = []
        original: Any = CollectingRedis.execute_command

        async def execute(self: CollectingRedis, *words: Any, **options: Any) -> Any:
            commands.append(words[0])
            return await original(self, *words, **options)

        monkeypatch.setattr(CollectingRedis, "execute_command", execute)
        stored = await saver.aget_tuple(PLACE)
        assert stored is not None
        assert [value for _, _, value in stored.pending_writes or ()] == [{"c": 2}, {"d": 3}]
        assert commands == ["EVAL"]


async def test_thousands_of_blobs_are_written_together(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver, _ = await saver_of(client, fresh_prefix())
        parts = {f"n{number}": f"{number:05}" * 300 for number in range(9000)}
        await put_checkpoint(saver, PLACE, {"outputs": parts})
        checkpoint = await saver.aget_tuple(PLACE)
    assert checkpoint is not None
    assert checkpoint.checkpoint["channel_values"]["outputs"] == parts


async def test_a_large_text_is_short_in_redis_and_damage_to_it_is_reported(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix)
        text = "word " * 100_000
        await put_checkpoint(saver, PLACE, {"outputs": {"a": {"b": text}}})
        blobs: dict[bytes, bytes] = await cast("Any", client).hgetall(sessions.blobs_key(THREAD))
        assert max(map(len, blobs.values())) < len(text) / 20
        checkpoint = await (await saver_of(client, prefix))[0].aget_tuple(PLACE)
        assert checkpoint is not None
        assert checkpoint.checkpoint["channel_values"]["outputs"] == {"a": {"b": text}}
        for name, blob in blobs.items():
            await client.hset(sessions.blobs_key(THREAD), name, blob[:-9])
        with pytest.raises(DamagedSessionError):
            await (await saver_of(client, prefix))[0].aget_tuple(PLACE)


async def test_a_rejected_write_logs_no_further_warning(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = await saver_of(client, prefix)
        await client.hset(sessions.lease_key(session_of_thread(THREAD)), "token", "2")
        with pytest.raises(ConflictError):
            await put_checkpoint(saver, with_lease_token(PLACE, 1))
    assert "TTL" not in caplog.text


async def test_an_open_store_works_after_a_flush(redis_url: str) -> None:
    async with open_store("memory://", SystemClock()) as other:
        runner = runner_of(out("x"), store=other)
        await play_run(runner.start("s", {"query": "q"}))
        count = len([checkpoint async for checkpoint in runner.history("s")])
    async with open_store(redis_url, SystemClock(), prefix=fresh_prefix()) as store:
        inner: Any = store.saver.inner
        for index in (inner.checkpoints_index, inner.checkpoint_writes_index):
            await index.delete(drop=True)
        runner = runner_of(out("x"), store=store)
        await play_run(runner.start("s", {"query": "q"}))
        checkpoints: list[CheckpointInfo] = []
        async with asyncio.timeout(60):  # the server fills a new index in the background
            while len(checkpoints) < count:
                await asyncio.sleep(0.1)
                checkpoints = [checkpoint async for checkpoint in runner.history("s")]
        await store.delete_session("s")
        assert [checkpoint async for checkpoint in runner.history("s")] == []


WRITER = """
import asyncio, sys
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import RunRecord, with_lease_token
from tests.stores import checkpoint_config, put_checkpoint

async def write():
    async with open_store(sys.argv[1], SystemClock(), prefix=sys.argv[2]) as store:
        for number in range(10_000):
            lease = await store.leases.acquire(f"s{number}", lambda: None)
            config = with_lease_token(checkpoint_config(thread_of_session(f"s{number}")), lease.token)
            place = with_lease_token(await put_checkpoint(store.saver, config, {"a": "x" * 3000}), lease.token)
            await store.saver.aput_writes(place, [("outputs", {"a": 1})], "task")
            await store.runs.put(RunRecord(f"r{number}", f"s{number}", started_ms=number + 1))
            if number == 3:
                print("ready", flush=True)

asyncio.run(write())
"""


async def test_a_killed_process_leaves_no_key_without_a_time_to_live(redis_url: str) -> None:
    async with redis_client(redis_url) as client:
        for number in range(4):
            prefix, earlier = fresh_prefix(), await redis_keys(client, "write_keys_zset:*")
            with python_process(WRITER, redis_url, prefix) as process:
                assert process.read_line() == "ready"
                await asyncio.sleep(0.03 * number)
                process.kill()
            registries = {*await redis_keys(client, "write_keys_zset:*")} - {*earlier}  # they have no prefix
            keys = await redis_keys(client, f"{prefix}*") + sorted(registries)
            assert len(keys) > 20
            assert [key for key in keys if await client.ttl(key) == -1] == []


async def test_a_session_from_before_its_set_of_keys_is_read_continued_and_deleted(redis_url: str) -> None:
    prefix = fresh_prefix()
    session = uuid.uuid4().hex
    async with open_store(redis_url, SystemClock(), prefix=prefix) as store, redis_client(redis_url) as client:
        runner = runner_of(out("{sys.query}"), store=store)
        await play_run(runner.start(session, {"query": "x" * 3000}))
        (keys,) = [key for key in await redis_keys(client, f"{prefix}*") if "checkpoint_keys" in key]
        await client.delete(keys)
        (blobs,) = [key for key in await redis_keys(client, f"{prefix}*") if "checkpoint_blobs" in key]
        await RedisBlobs(client, RedisSessions(client, prefix, 60)).erase(blobs.rpartition(":")[2], ["has_keys"])
        registries = f"write_keys_zset:{thread_of_session(session)}:*"
        assert await redis_keys(client, registries)
        assert (await runner.state(session))["globals"]["sys.query"] == "x" * 3000
        await play_run(runner.start(session, {"query": "y" * 3000}))
        await store.delete_session(session)
        assert await redis_keys(client, f"{prefix}*") == []
        assert await redis_keys(client, registries) == []
