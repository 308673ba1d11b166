import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redis.asyncio import Redis

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.lease_owner import Owner, this_process
from ragflow_lg.checkpoints.leases import LeaseHolder, StoredLeases
from ragflow_lg.checkpoints.redis.redis_leases import RedisLeaseTable
from tests.stores import fresh_prefix


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def test_deployments_on_one_server_are_apart(redis_url: str) -> None:
    for prefix in ("a:", "b:"):
        async with open_store(redis_url, SystemClock(), prefix=prefix) as store:
            assert await store.saver.aget_tuple(config("apart")) is None
            await store.saver.aput(config("apart"), empty_checkpoint(), {"source": "loop", "step": 1}, {})


async def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(CheckpointError, match="does not answer") as caught:
        async with open_store("redis://user:secret@127.0.0.1:1", SystemClock()):
            pass
    assert "secret" not in str(caught.value)


async def test_a_lease_is_the_hash_that_ragflow_has_and_runs_out_by_the_servers_clock(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        table = RedisLeaseTable(client, prefix, lease_s=0.3)
        elsewhere = Owner("another-host", 7, "1")
        assert await table.take("0" * 32, elsewhere, 0) == 1
        assert await table.take("0" * 32, this_process(), 0) == LeaseHolder(elsewhere, 1)
        held = await client.hgetall(f"{prefix}agent:active-session:{'0' * 32}")  # type: ignore[misc]
        assert {b"session_id", b"token", b"owner", b"started_at"} == set(held)
        assert await table.renew("0" * 32, 1)
        assert await table.find("0" * 32) == LeaseHolder(elsewhere, 1)
        await asyncio.sleep(0.4)
        assert await table.find("0" * 32) is None
        assert not await table.renew("0" * 32, 1)
        assert await table.take("0" * 32, this_process(), 0) == 2
        await table.free("0" * 32, 1)
        assert await table.renew("0" * 32, 2)
        await table.free("0" * 32, 2)
        assert await table.take("0" * 32, this_process(), 0) == 3


@pytest.mark.parametrize("fields", [{"token": "6f1c-a"}, {"token": "5"}, {"token": "x", "owner": b"\xff|1|1"}])
async def test_a_session_that_ragflow_itself_runs_is_taken(redis_url: str, fields: dict[str, Any]) -> None:
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        prefix = fresh_prefix()
        await client.hset(f"{prefix}agent:active-session:{'0' * 32}", mapping=fields)  # type: ignore[misc]
        with pytest.raises(ConflictError):
            await StoredLeases(RedisLeaseTable(client, prefix)).acquire("0" * 32, lambda: None)
        assert await StoredLeases(RedisLeaseTable(client, prefix)).holder("0" * 32)
