import json

import pytest
from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.records.run_records import RecordTexts
from ragflow_lg.checkpoints.redis.redis_records import RedisRecords, RedisTraces
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.redis.redis_store import RedisCancels
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.stores import fresh_prefix, redis_client, redis_keys

TRACE: Trace = [{"component_id": "a", "trace": [{"tool_name": "look_0"}]}]
SESSION = "0" * 32


def runs_of(client: Redis, prefix: str, ttl_s: int) -> RedisRecords:
    """Return the run records in a server."""
    return RedisRecords(RedisSessions(client, prefix, ttl_s), RecordTexts())


async def test_a_run_is_a_hash_with_the_fields_of_ragflow_and_expires(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_client(redis_url) as client:
        runs = runs_of(client, prefix, 60)
        await runs.put(RunRecord("r1", SESSION, "anna", "c", status="waiting", started_ms=1, ended_ms=2))
        fields = await client.hgetall(f"{prefix}agent:run:r1")
        assert fields[b"canvas_id"] == b"c"
        assert fields[b"status"] == b"4"
        assert (fields[b"started_at"], fields[b"finished_at"]) == (b"1", b"2")
        assert {b"tenant_id", b"checkpoint_id", b"parent_run_id", b"failure_reason", b"cancel_requested"} < set(fields)
        assert 0 < await client.ttl(f"{prefix}agent:run:r1") <= 61
        await client.delete(f"{prefix}agent:run:r1")
        assert [r async for r in runs.sessions()] == []
        assert await client.zcard(f"{prefix}agent:sessions") == 0


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"status": "9"}, "failed", ""),
        ({"status": "-1"}, "failed", ""),
        ({"status": "", "started_at": "soon", "finished_at": "9" * 99}, "failed", ""),
        ({"status": "1", "failure_reason": b"\xff"}, "succeeded", "\ufffd"),
        ({"canvas_id": "c"}, "running", ""),
    ],
)
async def test_a_hash_of_another_program_is_read(
    redis_url: str, fields: dict[FieldT, EncodableT], status: str, reason: str
) -> None:
    async with redis_client(redis_url) as client:
        prefix = fresh_prefix()
        await client.hset(f"{prefix}agent:run:r", mapping=fields)
        record = await runs_of(client, prefix, 60).get("r")
    assert record is not None
    assert (record.status, record.reason, record.started_ms, record.ended_ms) == (status, reason, 0, 0)


@pytest.mark.parametrize(
    ("canvas_id", "keys"),
    [
        ("b7d1c0ffee", [f"{SESSION}-r1-logs", "b7d1c0ffee-r1-logs"]),
        ("/srv/canvas.json", [f"{SESSION}-r1-logs"]),
        ("", [f"{SESSION}-r1-logs"]),
    ],
)
async def test_a_trace_has_the_keys_of_ragflow_for_ten_minutes(redis_url: str, canvas_id: str, keys: list[str]) -> None:
    prefix = fresh_prefix()
    async with redis_client(redis_url) as client:
        record = RunRecord("r1", SESSION, canvas_id=canvas_id)
        await runs_of(client, prefix, 6000).put(record)
        traces = RedisTraces(RedisSessions(client, prefix, 60), RecordTexts())
        await traces.put(record, TRACE)
        assert await redis_keys(client, f"{prefix}*-logs") == [prefix + key for key in keys]
        for key in keys:
            text = await client.get(prefix + key)
            assert text is not None
            assert json.loads(text) == TRACE
            assert 590 < await client.ttl(prefix + key) <= 600
        await traces.delete_session(SESSION)
        assert await redis_keys(client, f"{prefix}*-logs") == []


async def test_an_expired_trace_does_not_exist(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with redis_client(redis_url) as client:
        await runs_of(client, prefix, 6000).put(RunRecord("r1", SESSION))
        assert await RedisTraces(RedisSessions(client, prefix, 60), RecordTexts()).get("r1") is None


async def test_an_unreachable_server_is_reported() -> None:
    async with redis_client("redis://127.0.0.1:1") as client:
        runs, traces = runs_of(client, "", 60), RedisTraces(RedisSessions(client, "", 60), RecordTexts())
        cancels, record = RedisCancels(RedisSessions(client, "", 60)), RunRecord("r", "anna")
        for calling in (
            *(runs.put(record), runs.get("r"), runs.delete_session("anna"), cancels.request("anna")),
            *(traces.put(record, TRACE), traces.get("r"), traces.delete_session("anna")),
        ):
            with pytest.raises(CheckpointError, match="The session store failed"):
                await calling
