import asyncio
import uuid
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.fence_token import FenceToken
from ragflow_lg.checkpoints.redis.redis_saver import lease_key, open_redis, redis_saver
from ragflow_lg.runs.stored_steps import CheckpointInfo
from ragflow_lg.services.sessions import with_lease_token
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import checkpoint_config, checkpoint_id, fresh_prefix, put_checkpoint, redis_client, redis_keys

THREAD = str(uuid.uuid4())
PLACE = checkpoint_config(THREAD)


async def test_a_write_checks_its_token_atomically(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        lease = lease_key(prefix, session_of_thread(THREAD))
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


async def test_the_pointer_to_the_newest_checkpoint_is_fenced(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        lease = lease_key(prefix, session_of_thread(THREAD))
        await client.hset(lease, "token", "1")
        first = await put_checkpoint(saver, with_lease_token(PLACE, 1))
        execute = client.execute_command

        async def lose_before_pointer(*command: Any, **options: Any) -> Any:
            if command[0] == "SET":
                await client.hset(lease, "token", "2")
            return await execute(*command, **options)

        client.execute_command = lose_before_pointer
        with pytest.raises(ConflictError):
            await put_checkpoint(saver, with_lease_token(PLACE, 1))
        client.execute_command = execute
        checkpoint = await saver.aget_tuple(PLACE)
        assert checkpoint is not None
        assert checkpoint.checkpoint["id"] == checkpoint_id(first)


async def test_a_listing_has_several_pages(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.PAGE", 7)
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        places = [await put_checkpoint(saver, PLACE) for _ in range(21)]
        ids: list[str] = []
        async for checkpoint in saver.alist(PLACE):
            if len(ids) == 3:  # a new checkpoint moves the pages of a listing
                await put_checkpoint(saver, PLACE)
            ids.append(checkpoint.checkpoint["id"])
        assert ids == [checkpoint_id(place) for place in reversed(places)]


async def test_a_session_with_more_than_ten_thousand_checkpoints_is_deleted_completely(redis_url: str) -> None:
    prefix, count = fresh_prefix(), 10_050
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=600)
        stored_id = checkpoint_id(await put_checkpoint(saver, PLACE))
        (key,) = await redis_keys(client, f"{prefix}checkpoint:*")
        row: dict[str, Any] = await client.execute_command("JSON.GET", key)
        pipeline = client.pipeline(transaction=False)
        for number in range(count):
            id_ = f"0000-{number:05}"
            pipeline.json().set(key.replace(stored_id, id_), "$", {**row, "checkpoint_id": id_})
        await pipeline.execute()
        await saver.adelete_thread(THREAD)
        assert await redis_keys(client, f"{prefix}*") == []


async def test_all_keys_of_a_session_expire_together_and_reading_renews_them(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    config = checkpoint_config(thread)
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=600)
        place = await put_checkpoint(saver, config, {"outputs": {"a": "x" * 9000}})
        await saver.aput_writes(place, [("__interrupt__", [])], "task")
        keys = await redis_keys(client, f"{prefix}*") + await redis_keys(client, f"write_keys_zset:{thread}*")
        assert len(keys) >= 5
        for key in keys:
            assert 0 < await client.ttl(key) <= 600, key
            await client.expire(key, 100)
        await saver.aget_tuple(config)
        assert {key: await client.ttl(key) > 500 for key in keys} == dict.fromkeys(keys, True)


async def test_a_failed_command_is_reported_as_in_a_plain_pipeline(redis_url: str) -> None:
    from ragflow_lg.checkpoints.redis.redis_saver import _Fence, _fence  # pyright: ignore[reportPrivateUsage] - no public name sets a fence

    async with open_redis(redis_url) as client:
        key = fresh_prefix()
        await client.hset(f"{key}lease", "token", 1)
        await client.hset(f"{key}blobs", "epoch", "e")
        reset_token = _fence.set(_Fence(f"{key}lease", f"{key}blobs", FenceToken("t", 1, "e")))
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
            _fence.reset(reset_token)
        assert await client.delete(key, f"{key}lease", f"{key}blobs") == 3


async def test_a_server_without_the_modules_is_rejected(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing_modules(url: str) -> list[str]:
        return ["search"]

    monkeypatch.setattr("ragflow_lg.checkpoints.redis.redis_saver.missing_modules", missing_modules)
    with pytest.raises(CheckpointError, match=r"search\. Use redis:8"):
        async with open_redis(redis_url):
            pass


async def test_a_lost_server_is_reported(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=fresh_prefix(), ttl_s=60)
        inner: Any = saver.inner
        inner._redis = redis_client("redis://127.0.0.1:1")
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)


async def test_thousands_of_blobs_are_written_together(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=fresh_prefix(), ttl_s=60)
        parts = {f"n{number}": f"{number:05}" * 300 for number in range(9000)}
        await put_checkpoint(saver, PLACE, {"outputs": parts})
        checkpoint = await saver.aget_tuple(PLACE)
    assert checkpoint is not None
    assert checkpoint.checkpoint["channel_values"]["outputs"] == parts


async def test_a_rejected_write_logs_no_further_warning(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=60)
        await client.hset(lease_key(prefix, session_of_thread(THREAD)), "token", "2")
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
        async with asyncio.timeout(10):  # the server fills a new index in the background
            while len(checkpoints) < count:
                checkpoints = [checkpoint async for checkpoint in runner.history("s")]
        await store.delete_session("s")
        assert [checkpoint async for checkpoint in runner.history("s")] == []
