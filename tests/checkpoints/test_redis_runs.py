from __future__ import annotations

from redis.asyncio import Redis

from checkpoints.redis_runs import RedisRuns
from ragflow_lg.sessions import RunRecord
from tests.stores import fresh_prefix


async def test_the_hash_has_ragflows_fields_and_what_has_run_out_is_forgotten(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        runs = RedisRuns(client, prefix, 60)
        await runs.put(RunRecord("r1", "0" * 32, "anna", "c", status="waiting", started_ms=1, ended_ms=2))
        held = await client.hgetall(f"{prefix}agent:run:r1")  # type: ignore[misc]
        assert (held[b"canvas_id"], held[b"status"], held[b"started_at"], held[b"finished_at"]) == (
            b"c",
            b"4",
            b"1",
            b"2",
        )
        assert {b"tenant_id", b"checkpoint_id", b"parent_run_id", b"failure_reason", b"cancel_requested"} < set(held)
        assert 0 < await client.ttl(f"{prefix}agent:run:r1") <= 60
        await client.delete(f"{prefix}agent:run:r1")
        assert [r async for r in runs.sessions()] == []
        assert await client.zcard(f"{prefix}agent:sessions") == 0
