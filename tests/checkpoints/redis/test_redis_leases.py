import asyncio

import pytest
from redis.typing import EncodableT, FieldT

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.leases import LeaseHolder, Owner, StoredLeases, this_process
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.redis.redis_store import RedisLeaseTable
from tests.stores import checkpoint_config, fresh_prefix, put_checkpoint, redis_client, redis_keys

SESSION = "0" * 32


async def test_prefixes_separate_deployments_on_one_server(redis_url: str) -> None:
    for prefix in ("a:", "b:"):
        async with open_store(redis_url, prefix=prefix) as store:
            assert await store.saver.aget_tuple(checkpoint_config("t")) is None
            await put_checkpoint(store.saver, checkpoint_config("t"))


async def test_the_error_for_an_unreachable_server_hides_the_password() -> None:
    with pytest.raises(CheckpointError, match="does not answer") as error:
        async with open_store("redis://user:secret@127.0.0.1:1"):
            pass
    assert "secret" not in str(error.value)


async def test_a_lease_is_the_hash_of_ragflow_and_expires_by_the_clock_of_the_server(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_client(redis_url) as client:
        table = RedisLeaseTable(client, RedisSessions(client, prefix, 60))
        table.lease_ms = 300  # shorter than in use
        elsewhere = Owner("another-host", 7, "1")
        first = await table.take(SESSION, elsewhere, 0)
        assert isinstance(first, int)
        assert await table.take(SESSION, this_process(), 0) == LeaseHolder(elsewhere, first)
        fields = await client.hgetall(f"{prefix}agent:active-session:{SESSION}")
        assert {b"session_id", b"token", b"owner", b"started_at"} == set(fields)
        assert await table.renew(SESSION, first)
        assert await table.find(SESSION) == LeaseHolder(elsewhere, first)
        await asyncio.sleep(0.4)
        assert await table.find(SESSION) is None
        assert not await table.renew(SESSION, first)
        second = await table.take(SESSION, this_process(), 0)
        assert isinstance(second, int)
        assert second > first
        await table.free(SESSION, first)
        assert await table.renew(SESSION, second)
        await table.free(SESSION, second)
        third = await table.take(SESSION, this_process(), 0)
        assert isinstance(third, int)
        assert third > second


async def test_a_server_that_has_lost_its_data_issues_no_token_twice(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_client(redis_url) as client:
        table = RedisLeaseTable(client, RedisSessions(client, prefix, 60))
        first = await table.take(SESSION, this_process(), 0)
        await client.delete(*await redis_keys(client, f"{prefix}*"))
        second = await table.take(SESSION, this_process(), 0)
        assert isinstance(first, int)
        assert isinstance(second, int)
        assert second > first


@pytest.mark.parametrize("fields", [{"token": "6f1c-a"}, {"token": "5"}, {"token": "x", "owner": b"\xff|1|1"}])
async def test_a_session_that_ragflow_runs_is_busy(redis_url: str, fields: dict[FieldT, EncodableT]) -> None:
    async with redis_client(redis_url) as client:
        prefix = fresh_prefix()
        await client.hset(f"{prefix}agent:active-session:{SESSION}", mapping=fields)
        with pytest.raises(ConflictError):
            await StoredLeases(RedisLeaseTable(client, RedisSessions(client, prefix, 60))).acquire(
                SESSION, lambda: None
            )
        assert await StoredLeases(RedisLeaseTable(client, RedisSessions(client, prefix, 60))).holder(SESSION)
