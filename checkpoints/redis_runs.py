"""Records of runs in Redis, as RAGFlow's ``agent:run`` hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

from redis.asyncio import Redis

from checkpoints.runs import hex_session
from ragflow_lg.sessions import RunRecord, RunStatus

__all__ = ["RedisRuns"]

STATUSES: tuple[RunStatus, ...] = ("running", "succeeded", "failed", "cancelled", "waiting")
"""By RAGFlow's number."""


class RedisRuns:
    """Records as hashes ``agent:run:{run_id}``, with an index per session and one of sessions."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix
        self._ttl_s = ttl_s

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        record = replace(record, session=hex_session(record.session))
        key, index = f"{self._prefix}agent:run:{record.run_id}", self._index(record.session)
        await self._client.hset(key, mapping=_to_hash(record))
        await self._client.expire(key, self._ttl_s)
        await self._client.zadd(index, {record.run_id: record.started_ms})
        await self._client.expire(index, self._ttl_s)
        await self._client.zadd(self._sessions, {record.session: record.started_ms})

    async def get(self, run_id: str) -> RunRecord | None:
        """Give a record."""
        held = await self._client.hgetall(f"{self._prefix}agent:run:{run_id}")
        return _from_hash(run_id, {k.decode(): v.decode() for k, v in held.items()}) if held else None

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Give the records of a session, newest first."""
        index = self._index(hex_session(session))
        for run_id in await self._client.zrevrange(index, 0, -1):
            record = await self.get(run_id.decode())
            if record is None:
                await self._client.zrem(index, run_id)  # it has run out
            else:
                yield record

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Give the newest record of every session, newest first."""
        for session in await self._client.zrevrange(self._sessions, 0, -1):
            newest = await anext(aiter(self.of_session(session.decode())), None)
            if newest is None:
                await self._client.zrem(self._sessions, session)
            else:
                yield newest

    async def delete_session(self, session: str) -> None:
        """Forget all runs of a session."""
        index = self._index(hex_session(session))
        runs = [f"{self._prefix}agent:run:{run.decode()}" for run in await self._client.zrange(index, 0, -1)]
        await self._client.delete(index, *runs)
        await self._client.zrem(self._sessions, hex_session(session))

    def _index(self, session: str) -> str:
        return f"{self._prefix}agent:runs-of-session:{session}"

    @property
    def _sessions(self) -> str:
        return f"{self._prefix}agent:sessions"


def _to_hash(record: RunRecord) -> dict[str, str | int]:
    return {
        "canvas_id": record.canvas_id,
        "tenant_id": record.tenant,
        "checkpoint_id": record.checkpoint,
        "parent_run_id": record.parent_run,
        "status": STATUSES.index(record.status),
        "failure_reason": record.reason,
        "cancel_requested": int(record.is_cancel_requested),
        "started_at": record.started_ms,
        "finished_at": record.ended_ms,
        "session_id": record.session,
        "session_name": record.name,
        "canvas_hash": record.canvas_hash,
        "updated_at": record.updated_ms,
    }


def _from_hash(run_id: str, held: Mapping[str, str]) -> RunRecord:
    return RunRecord(
        run_id,
        held.get("session_id", ""),
        held.get("session_name", ""),
        held.get("canvas_id", ""),
        held.get("canvas_hash", ""),
        held.get("tenant_id", ""),
        held.get("checkpoint_id", ""),
        held.get("parent_run_id", ""),
        STATUSES[int(held.get("status", "0"))],
        held.get("failure_reason", ""),
        held.get("cancel_requested") == "1",
        int(held.get("started_at") or 0),
        int(held.get("updated_at") or 0),
        int(held.get("finished_at") or 0),
    )
