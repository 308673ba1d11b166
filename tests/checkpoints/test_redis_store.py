from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redis.asyncio import Redis

from checkpoints.redis_store import FencedRedis, lease_key, open_redis, redis_saver
from ragflow_lg.errors import CheckpointError, ConflictError
from ragflow_lg.ids import session_of_thread
from tests.stores import fresh_prefix

THREAD = str(uuid.uuid4())
PLACE: Any = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}


async def test_a_write_and_the_check_of_its_token_are_one_step(redis_url: str) -> None:
    prefix, held = fresh_prefix(), {THREAD: 1}
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, held, prefix=prefix, ttl_s=60)
        place = await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})
        await client.hset(lease_key(prefix, session_of_thread(THREAD)), "token", "2")  # type: ignore[misc]
        with pytest.raises(ConflictError):
            await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        with pytest.raises(ConflictError):
            await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 2}, {})
        held[THREAD] = 2
        await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        found = await saver.aget_tuple(PLACE)
        assert found is not None
        assert found.pending_writes == [("task", "outputs", {"a": 1})]


async def test_everything_of_a_session_expires_together_and_reading_renews_it(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    own: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, {}, prefix=prefix, ttl_s=600)
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
    from checkpoints.redis_store import _fence  # pyright: ignore[reportPrivateUsage]

    async with FencedRedis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        key = fresh_prefix()
        mark = _fence.set((f"{key}lease", 1))
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
        assert await client.delete(key) == 1


async def test_a_server_without_the_modules_is_refused(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpoints.redis_store.missing_modules", lambda url: ["search"])
    with pytest.raises(CheckpointError, match=r"search\. Use redis:8"):
        async with open_redis(redis_url):
            pass


async def test_a_server_that_goes_away_is_told(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, {}, prefix=fresh_prefix(), ttl_s=60)
        gone: Any = Redis.from_url("redis://127.0.0.1:1")  # type: ignore[no-untyped-call]
        saver.inner._redis = gone  # type: ignore[attr-defined]
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)
