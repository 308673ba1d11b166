"""What the agents of runs did, in Redis, under RAGFlow's keys."""

from __future__ import annotations

import re
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.checkpoints.run_records import hex_session
from ragflow_lg.checkpoints.traces import read_trace, written_trace
from ragflow_lg.services.sessions import RunRecord, Trace

__all__ = ["TRACE_TTL_S", "RedisTraces"]

TRACE_TTL_S = 600
"""As in RAGFlow: long enough for whoever looks on while a turn runs."""

_ID = re.compile(r"[\w-]{1,128}", re.ASCII)


class RedisTraces:
    """Traces as JSON under ``{task_id}-{message_id}-logs``.

    RAGFlow writes with the session's id for the task, but reads with the agent's; so a trace stands under both, where
    the canvas has an id and not only a file.
    """

    def __init__(self, client: Redis, prefix: str, ttl_s: int = TRACE_TTL_S) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix
        self._ttl_s = ttl_s

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store the trace of a run."""
        tasks = [hex_session(record.session)]
        if _ID.fullmatch(record.canvas_id):
            tasks.append(record.canvas_id)
        text = written_trace(trace)
        with told_plainly(RedisError, OSError):
            async with self._client.pipeline() as together:
                for task in tasks:
                    together.set(self._key(task, record.run_id), text, ex=self._ttl_s)
                await together.execute()

    async def get(self, run_id: str) -> Trace | None:
        """Give the trace of a run, found by the run's record."""
        with told_plainly(RedisError, OSError):
            session = await self._client.hget(f"{self._prefix}agent:run:{run_id}", "session_id")
            if session is None:
                return None
            return read_trace(await self._client.get(self._key(session.decode("utf-8", "replace"), run_id)))

    async def delete_session(self, session: str) -> None:
        """Forget the traces of a session, by the records of its runs."""
        session = hex_session(session)
        with told_plainly(RedisError, OSError):
            keys: list[str] = []
            for run in await self._client.zrange(f"{self._prefix}agent:runs-of-session:{session}", 0, -1):
                run_id = run.decode("utf-8", "replace")
                canvas = await self._client.hget(f"{self._prefix}agent:run:{run_id}", "canvas_id")
                tasks = [session, *([canvas.decode("utf-8", "replace")] if canvas else [])]
                keys += [self._key(task, run_id) for task in tasks]
            if keys:
                await self._client.delete(*keys)

    def _key(self, task: str, run_id: str) -> str:
        return f"{self._prefix}{task}-{run_id}-logs"
