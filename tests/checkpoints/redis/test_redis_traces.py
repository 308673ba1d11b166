from __future__ import annotations

import json

import pytest
from redis.asyncio import Redis

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.redis.redis_runs import RedisRuns
from ragflow_lg.checkpoints.redis.redis_traces import RedisTraces
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.stores import fresh_prefix

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


async def test_a_server_that_is_gone_is_told() -> None:
    async with Redis.from_url("redis://127.0.0.1:1") as client:  # type: ignore[no-untyped-call]
        traces = RedisTraces(client, "")
        with pytest.raises(CheckpointError, match="The session store fails"):
            await traces.put(RunRecord("r", "anna"), TRACE)
        with pytest.raises(CheckpointError, match="The session store fails"):
            await traces.get("r")
        with pytest.raises(CheckpointError, match="The session store fails"):
            await traces.delete_session("anna")
