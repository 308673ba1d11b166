import asyncio
import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redis.asyncio import Redis

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.fence_token import FenceToken
from ragflow_lg.checkpoints.redis.redis_saver import FencedRedis, lease_key, open_redis, redis_saver
from ragflow_lg.services.sessions import with_lease_token
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import fresh_prefix

THREAD = str(uuid.uuid4())
STEP: Any = {"source": "loop", "step": 1}
PLACE: Any = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}


async def test_a_write_and_the_check_of_its_token_are_one_step(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        lease = lease_key(prefix, session_of_thread(THREAD))
        await client.hset(lease, "token", "1")  # type: ignore[misc]
        place = with_lease_token(await saver.aput(with_lease_token(PLACE, 1), empty_checkpoint(), STEP, {}), 1)
        await client.hset(lease, "token", "2")  # type: ignore[misc]
        with pytest.raises(ConflictError):
            await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        with pytest.raises(ConflictError):
            await saver.aput(with_lease_token(PLACE, 1), empty_checkpoint(), STEP, {})
        await saver.aput_writes(with_lease_token(place, 2), [("outputs", {"a": 1})], "task")
        found = await saver.aget_tuple(PLACE)
        assert found is not None
        assert found.pending_writes == [("task", "outputs", {"a": 1})]


async def test_the_pointer_to_the_newest_checkpoint_is_fenced_too(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        lease = lease_key(prefix, session_of_thread(THREAD))
        await client.hset(lease, "token", "1")  # type: ignore[misc]
        first = await saver.aput(with_lease_token(PLACE, 1), empty_checkpoint(), STEP, {})
        execute = client.execute_command

        async def lose_before_pointer(*command: Any, **options: Any) -> Any:
            if command[0] == "SET":
                await client.hset(lease, "token", "2")  # type: ignore[misc]
            return await execute(*command, **options)

        client.execute_command = lose_before_pointer  # type: ignore[method-assign]
        with pytest.raises(ConflictError):
            await saver.aput(with_lease_token(PLACE, 1), empty_checkpoint(), STEP, {})
        client.execute_command = execute  # type: ignore[method-assign]
        found = await saver.aget_tuple(PLACE)
        assert found is not None
        assert found.checkpoint["id"] == first["configurable"]["checkpoint_id"]  # pyright: ignore[reportTypedDictNotRequiredAccess]


async def test_more_than_a_page_is_listed_and_deleted(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.PAGE", 7)
    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.READ_CONCURRENCY", 3)
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        stored = [await saver.aput(PLACE, empty_checkpoint(), STEP, {}) for _ in range(21)]
        listed: list[str] = []
        async for found in saver.alist(PLACE):
            if len(listed) == 3:  # what comes in while one lists moves the pages
                await saver.aput(PLACE, empty_checkpoint(), STEP, {})
            listed.append(found.checkpoint["id"])
        assert listed == [place["configurable"]["checkpoint_id"] for place in reversed(stored)]  # pyright: ignore[reportTypedDictNotRequiredAccess]


async def test_a_session_of_more_than_ten_thousand_checkpoints_is_deleted_whole(redis_url: str) -> None:
    prefix, count = fresh_prefix(), 10_050
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=600)
        place: Any = await saver.aput(PLACE, empty_checkpoint(), STEP, {})
        (key,) = [key.decode() async for key in client.scan_iter(f"{prefix}checkpoint:*")]
        model: Any = await client.json().get(key)  # type: ignore[misc]
        pipeline = client.pipeline(transaction=False)
        for number in range(count):
            id_ = f"0000-{number:05}"
            pipeline.json().set(
                key.replace(place["configurable"]["checkpoint_id"], id_), "$", {**model, "checkpoint_id": id_}
            )
        await pipeline.execute()
        await saver.adelete_thread(THREAD)
        assert [key async for key in client.scan_iter(f"{prefix}*")] == []


async def test_everything_of_a_session_expires_together_and_reading_renews_it(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    own: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=600)
        versions: Any = {"outputs": saver.get_next_version(None, None)}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"outputs": {"a": "x" * 9000}}}
        place = await saver.aput(
            own, {**checkpoint, "channel_versions": versions}, {"source": "loop", "step": 1}, versions
        )
        await saver.aput_writes(place, [("__interrupt__", [])], "task")
        keys = [key async for key in client.scan_iter(f"{prefix}*")] + [
            key async for key in client.scan_iter(f"write_keys_zset:{thread}*")
        ]
        assert len(keys) >= 5
        for key in keys:
            assert 0 < await client.ttl(key) <= 600, key
            await client.expire(key, 100)
        await saver.aget_tuple(own)
        assert {key: await client.ttl(key) > 500 for key in keys} == dict.fromkeys(keys, True)


async def test_errors_of_commands_are_those_of_a_pipeline(redis_url: str) -> None:
    from ragflow_lg.checkpoints.redis.redis_saver import _Fence, _fence  # pyright: ignore[reportPrivateUsage]

    async with FencedRedis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        key = fresh_prefix()
        await client.hset(f"{key}lease", "token", 1)  # type: ignore[misc]
        await client.hset(f"{key}blobs", "epoch", "e")  # type: ignore[misc]
        mark = _fence.set(_Fence(f"{key}lease", f"{key}blobs", FenceToken("t", 1, "e")))
        try:
            pipeline = client.pipeline()
            pipeline.set(key, "text")
            pipeline.lpush(key, "x")
            results = await pipeline.execute(raise_on_error=False)
            assert results[0] is True
            assert "WRONGTYPE" in str(results[1])
            pipeline.lpush(key, "x")
            with pytest.raises(Exception, match="WRONGTYPE"):
                await pipeline.execute()
        finally:
            _fence.reset(mark)
        assert await client.delete(key, f"{key}lease", f"{key}blobs") == 3


async def test_a_server_without_the_modules_is_refused(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.missing_modules", lambda url: ["search"])
    with pytest.raises(CheckpointError, match=r"search\. Use redis:8"):
        async with open_redis(redis_url):
            pass


async def test_a_server_that_goes_away_is_told(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=fresh_prefix(), ttl_s=60)
        gone: Any = Redis.from_url("redis://127.0.0.1:1")  # type: ignore[no-untyped-call]
        saver.inner._redis = gone  # type: ignore[attr-defined]
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)


async def test_thousands_of_blobs_are_written_at_once(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=fresh_prefix(), ttl_s=60)
        parts = {f"n{number}": f"{number:05}" * 300 for number in range(9000)}
        versions: Any = {"outputs": saver.get_next_version(None, None)}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"outputs": parts}, "channel_versions": versions}
        await saver.aput(PLACE, checkpoint, STEP, versions)
        found = await saver.aget_tuple(PLACE)
    assert found is not None
    assert found.checkpoint["channel_values"]["outputs"] == parts


async def test_a_refused_write_is_told_once_and_quietly(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        await client.hset(lease_key(prefix, session_of_thread(THREAD)), "token", "2")  # type: ignore[misc]
        with pytest.raises(ConflictError):
            await saver.aput(with_lease_token(PLACE, 1), empty_checkpoint(), STEP, {})
    assert "TTL" not in caplog.text


async def test_an_open_store_goes_on_behind_a_flush(redis_url: str) -> None:
    async with open_store("memory://", SystemClock()) as other:
        play = runner_of(out("x"), store=other)
        await play_run(play.start("s", {"query": "q"}))
        whole = len([moment async for moment in play.history("s")])
    async with open_store(redis_url, SystemClock(), prefix=fresh_prefix()) as store:
        inner: Any = store.saver.inner
        for index in (inner.checkpoints_index, inner.checkpoint_writes_index):
            await index.delete(drop=True)
        play = runner_of(out("x"), store=store)
        await play_run(play.start("s", {"query": "q"}))
        listed: list[Any] = []
        async with asyncio.timeout(10):  # the server reads what is there into a new index by and by
            while len(listed) < whole:
                listed = [moment async for moment in play.history("s")]
        await store.delete_session("s")
        assert [moment async for moment in play.history("s")] == []
