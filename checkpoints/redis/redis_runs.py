"""Records of runs in Redis, as RAGFlow's ``agent:run`` hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.checkpoints.run_records import as_kept, hex_session
from ragflow_lg.services.sessions import RunRecord, RunStatus

__all__ = ["RedisRuns"]

STATUSES: tuple[RunStatus, ...] = ("running", "succeeded", "failed", "cancelled", "waiting")
"""By RAGFlow's number."""

_STATUS_OF: dict[str, RunStatus] = {str(number): status for number, status in enumerate(STATUSES)}


class RedisRuns:
    """Records as hashes ``agent:run:{run_id}``, with an index per session and one of sessions."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix
        self._ttl_s = ttl_s

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        record = as_kept(record)
        key, index = f"{self._prefix}agent:run:{record.run_id}", self._index(record.session)
        with told_plainly(RedisError, OSError):
            async with self._client.pipeline() as together:
                together.hset(key, mapping=_to_hash(record))
                together.expire(key, self._ttl_s)
                together.zadd(index, {record.run_id: record.started_ms})
                together.expire(index, self._ttl_s)
                # An older run of the session may end after a newer one has begun.
                together.zadd(self._sessions, {record.session: record.started_ms}, gt=True)
                await together.execute()

    async def get(self, run_id: str) -> RunRecord | None:
        """Give a record."""
        with told_plainly(RedisError, OSError):
            held = await self._client.hgetall(f"{self._prefix}agent:run:{run_id}")
        return _from_hash(run_id, {_text(key): _text(value) for key, value in held.items()}) if held else None

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Give the records of a session, newest first."""
        index = self._index(hex_session(session))
        for run_id in await self._members(index):
            record = await self.get(run_id)
            if record is None:
                await self._drop(index, run_id)  # it has run out
            else:
                yield record

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Give the newest record of every session, newest first."""
        for session in await self._members(self._sessions):
            newest = await anext(aiter(self.of_session(session)), None)
            if newest is None:
                await self._drop(self._sessions, session)
            else:
                yield newest

    async def delete_session(self, session: str) -> None:
        """Forget all runs of a session."""
        index = self._index(hex_session(session))
        runs = [f"{self._prefix}agent:run:{run_id}" for run_id in await self._members(index)]
        with told_plainly(RedisError, OSError):
            await self._client.delete(index, *runs)
        await self._drop(self._sessions, hex_session(session))

    async def _members(self, index: str) -> list[str]:
        """Give what an index holds, newest first."""
        with told_plainly(RedisError, OSError):
            return [_text(member) for member in await self._client.zrevrange(index, 0, -1)]

    async def _drop(self, index: str, member: str) -> None:
        with told_plainly(RedisError, OSError):
            await self._client.zrem(index, member)

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


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


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
        _STATUS_OF.get(held.get("status", "0"), "failed"),  # RAGFlow may come to have more of them
        held.get("failure_reason", ""),
        held.get("cancel_requested") == "1",
        _number(held.get("started_at", "")),
        _number(held.get("updated_at", "")),
        _number(held.get("finished_at", "")),
    )
