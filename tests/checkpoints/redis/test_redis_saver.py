import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redis.asyncio import Redis

from ragflow_lg.base.errors import CheckpointError, ConflictError, DamagedSessionError
from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.run_records import RecordTexts
from ragflow_lg.checkpoints.redis.redis_client import open_redis
from ragflow_lg.checkpoints.redis.redis_records import RedisRecords
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.redis.redis_tables import RedisTables
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.services.sessions import RunRecord, with_lease_token
from tests.fakes.python_process import python_process
from tests.stores import METADATA, checkpoint_config, fresh_prefix, put_checkpoint, redis_client, redis_keys

THREAD = str(uuid.uuid4())
PLACE = checkpoint_config(THREAD)


def saver_of(client: Redis, prefix: str, ttl_s: int = 60) -> tuple[CanvasSaver, RedisSessions]:
    """Create a saver, and the keys that it uses."""
    sessions = RedisSessions(client, prefix, ttl_s)
    return CanvasSaver(RedisTables(sessions)), sessions


async def test_a_write_checks_its_token_atomically(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = saver_of(client, prefix)
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


async def test_deleting_a_session_leaves_the_same_one_of_another_deployment(redis_url: str) -> None:
    checkpoint, prefixes = empty_checkpoint(), (fresh_prefix(), fresh_prefix())
    async with AsyncExitStack() as stack:
        opened = [open_store(redis_url, prefix=prefix) for prefix in prefixes]
        one, other = [(await stack.enter_async_context(store)).saver for store in opened]
        for saver in (one, other):
            place = await saver.aput(PLACE, checkpoint, METADATA, {})
            await saver.aput_writes(place, [("outputs", {"a": 1})], "task")
        await one.adelete_thread(THREAD)
        found = await other.aget_tuple(PLACE)
        assert found is not None
        assert found.pending_writes == [("task", "outputs", {"a": 1})]


async def test_nothing_of_a_rejected_write_is_stored(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = saver_of(client, prefix)
        lease = sessions.lease_key(session_of_thread(THREAD))
        await client.hset(lease, "token", "2")
        with pytest.raises(ConflictError, match="Another runner"):
            await put_checkpoint(saver, with_lease_token(PLACE, 1), {"outputs": {"a": "x" * 9000}})
        await client.delete(lease)
        with pytest.raises(ConflictError, match="no longer holds"):
            await put_checkpoint(saver, with_lease_token(PLACE, 1), {"outputs": {"a": "x" * 9000}})
        assert await redis_keys(client, f"{prefix}*") == []


async def test_all_keys_of_a_session_expire_together_and_reading_renews_them(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    config = checkpoint_config(thread)

    async def expiry_times(client: Redis) -> set[int]:
        keys = await redis_keys(client, f"{prefix}*")
        assert len(keys) == 5
        untyped: Any = client
        return {await untyped.pexpiretime(key) for key in keys}

    async with open_redis(redis_url) as client:
        saver, sessions = saver_of(client, prefix, 2)
        runs = RedisRecords(sessions, RecordTexts())
        await runs.put(RunRecord("r1", session_of_thread(thread), started_ms=1))
        for namespace in ("", "inner"):
            place = await put_checkpoint(saver, checkpoint_config(thread, namespace), {"outputs": {"a": "x" * 9000}})
            await saver.aput_writes(place, [("__interrupt__", [])], "task")
        before = await expiry_times(client)
        assert len(before) <= 2  # the session, and the index of all sessions
        await asyncio.sleep(0.5)
        await saver.aget_tuple(config)
        after = await expiry_times(client)
        assert len(after) <= 2
        assert min(after) > max(before)
        await asyncio.sleep(2.2)
        assert await redis_keys(client, f"{prefix}*") == []


async def test_a_session_that_has_lost_a_key_is_reported(redis_url: str) -> None:
    prefix, thread = fresh_prefix(), str(uuid.uuid4())
    config = checkpoint_config(thread)
    async with open_redis(redis_url) as client:
        saver, sessions = saver_of(client, prefix, 600)
        await put_checkpoint(saver, config, {"outputs": {"a": "x" * 9000}})
        untyped: Any = client
        for key in (sessions.checkpoints_key(thread), sessions.blobs_key(thread)):
            stored = await untyped.dump(key)
            await client.delete(key)
            with pytest.raises(CheckpointError, match=r"has lost a part|is missing"):
                await saver.aget_tuple(config)
            await untyped.restore(key, 0, stored)
        assert await saver.aget_tuple(config) is not None


async def test_a_lost_server_is_reported(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver, _ = saver_of(client, fresh_prefix())
        tables: Any = saver.tables
        tables._sessions.client = redis_client("redis://127.0.0.1:1")
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)


async def test_thousands_of_blobs_are_written_together(redis_url: str) -> None:
    async with open_redis(redis_url) as client:
        saver, _ = saver_of(client, fresh_prefix())
        parts = {f"n{number}": f"{number:05}" * 300 for number in range(9000)}
        await put_checkpoint(saver, PLACE, {"outputs": parts})
        checkpoint = await saver.aget_tuple(PLACE)
    assert checkpoint is not None
    assert checkpoint.checkpoint["channel_values"]["outputs"] == parts


async def test_a_large_text_is_short_in_redis_and_damage_to_it_is_reported(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver, sessions = saver_of(client, prefix)
        text = "word " * 100_000
        await put_checkpoint(saver, PLACE, {"outputs": {"a": {"b": text}}})
        blobs: dict[bytes, bytes] = await cast("Any", client).hgetall(sessions.blobs_key(THREAD))
        assert max(map(len, blobs.values())) < len(text) / 20
        checkpoint = await saver_of(client, prefix)[0].aget_tuple(PLACE)
        assert checkpoint is not None
        assert checkpoint.checkpoint["channel_values"]["outputs"] == {"a": {"b": text}}
        for name, blob in blobs.items():
            await client.hset(sessions.blobs_key(THREAD), name, blob[:-9])
        with pytest.raises(DamagedSessionError):
            await saver_of(client, prefix)[0].aget_tuple(PLACE)


WRITER = """
import asyncio, sys
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import RunRecord, with_lease_token
from tests.stores import checkpoint_config, put_checkpoint

async def write():
    async with open_store(sys.argv[1], prefix=sys.argv[2]) as store:
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
            prefix = fresh_prefix()
            with python_process(WRITER, redis_url, prefix) as process:
                assert process.read_line() == "ready"
                await asyncio.sleep(0.03 * number)
                process.kill()
            keys = await redis_keys(client, f"{prefix}*")
            assert len(keys) > 20
            assert [key for key in keys if await client.ttl(key) == -1] == [f"{prefix}agent:store"]
