import json
from typing import Any

import pytest
from redis.asyncio import Redis

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.redis.redis_records import RedisRuns, RedisTraces
from ragflow_lg.services.sessions import RunRecord, Trace
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
async def test_a_hash_that_somebody_else_wrote_is_read(
    redis_url: str, fields: dict[str, Any], status: str, reason: str
) -> None:
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        prefix = fresh_prefix()
        await client.hset(f"{prefix}agent:run:r", mapping=fields)  # type: ignore[misc]
        found = await RedisRuns(client, prefix, 60).get("r")
    assert found is not None
    assert (found.status, found.reason, found.started_ms, found.ended_ms) == (status, reason, 0, 0)


async def test_runs_report_an_unreachable_server() -> None:
    async with Redis.from_url("redis://127.0.0.1:1") as client:  # type: ignore[no-untyped-call]
        runs = RedisRuns(client, "", 60)
        with pytest.raises(CheckpointError, match="The session store failed"):
            await runs.put(RunRecord("r", "anna"))
        with pytest.raises(CheckpointError, match="The session store failed"):
            await runs.get("r")
        with pytest.raises(CheckpointError, match="The session store failed"):
            await runs.delete_session("anna")


TRACE: Trace = [{"component_id": "a", "trace": [{"tool_name": "look_0"}]}]


SESSION = "0" * 32


@pytest.mark.parametrize(
    ("canvas_id", "keys"),
    [
        ("b7d1c0ffee", [f"{SESSION}-r1-logs", "b7d1c0ffee-r1-logs"]),
        ("/srv/canvas.json", [f"{SESSION}-r1-logs"]),
        ("", [f"{SESSION}-r1-logs"]),
    ],
)
async def test_ragflows_keys_by_session_and_by_agent_for_ten_minutes(
    redis_url: str, canvas_id: str, keys: list[str]
) -> None:
    prefix = fresh_prefix()
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        record = RunRecord("r1", SESSION, canvas_id=canvas_id)
        await RedisRuns(client, prefix, 6000).put(record)
        traces = RedisTraces(client, prefix)
        await traces.put(record, TRACE)
        found = sorted([key.decode() async for key in client.scan_iter(f"{prefix}*-logs")])
        assert found == [prefix + key for key in keys]
        for key in found:
            assert json.loads(await client.get(key)) == TRACE
            assert 590 < await client.ttl(key) <= 600
        await traces.delete_session(SESSION)
        assert [key async for key in client.scan_iter(f"{prefix}*-logs")] == []


async def test_what_has_run_out_is_no_trace(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        await RedisRuns(client, prefix, 6000).put(RunRecord("r1", SESSION))
        assert await RedisTraces(client, prefix).get("r1") is None


async def test_traces_report_an_unreachable_server() -> None:
    async with Redis.from_url("redis://127.0.0.1:1") as client:  # type: ignore[no-untyped-call]
        traces = RedisTraces(client, "")
        with pytest.raises(CheckpointError, match="The session store failed"):
            await traces.put(RunRecord("r", "anna"), TRACE)
        with pytest.raises(CheckpointError, match="The session store failed"):
            await traces.get("r")
        with pytest.raises(CheckpointError, match="The session store failed"):
            await traces.delete_session("anna")
