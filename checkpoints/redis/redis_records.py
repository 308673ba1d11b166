"""Run records and agent traces in Redis, stored under RAGFlow's keys."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict
from redis.exceptions import RedisError, ResponseError

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.records.run_records import MAX_TIME_MS, RecordTexts, hex_session
from ragflow_lg.checkpoints.redis.redis_client import Command
from ragflow_lg.checkpoints.redis.redis_sessions import LIST, RedisSessions
from ragflow_lg.services.sessions import RunRecord, RunStatus, Trace

STATUSES: tuple[RunStatus, ...] = ("running", "succeeded", "failed", "cancelled", "waiting")
"""Statuses, by RAGFlow's number for them."""

_NAMES = {
    "canvas_id": "canvas_id",
    "tenant": "tenant_id",
    "checkpoint": "checkpoint_id",
    "parent_run": "parent_run_id",
    "status": "status",
    "reason": "failure_reason",
    "is_cancel_requested": "cancel_requested",
    "started_ms": "started_at",
    "ended_ms": "finished_at",
    "session": "session_id",
    "name": "session_name",
    "canvas_hash": "canvas_hash",
    "updated_ms": "updated_at",
    "model": "model",
}
"""RAGFlow's names for the fields of a record, and names like them for others."""

PAGE = 256
"""Number of records that are read or deleted at once."""

TRACE_TTL_S = 600
"""The same as in RAGFlow: long enough for a client that watches a running turn."""

_ID = re.compile(r"[\w-]{1,128}", re.ASCII)

logger = logging.getLogger(__name__)


class RedisRecords:
    """Records stored as ``agent:run:{run_id}`` hashes, with one index for each session and one for all sessions."""

    def __init__(self, sessions: RedisSessions, texts: RecordTexts) -> None:
        self._client = sessions.client
        self._sessions = sessions
        self._texts = texts

    async def put(self, record: RunRecord) -> None:
        """Store a record in the open transaction, or by itself."""
        record = self._texts.seal(record)
        key, index = self._sessions.record_key(record.run_id), self._sessions.runs_key(record.session)
        fields = [part for field in _to_hash(record).items() for part in field]
        commands: list[Command] = [
            ("HSET", key, *fields),
            ("ZADD", index, record.started_ms, record.run_id),
            (LIST, record.session, record.started_ms),
        ]
        with translate_errors(RedisError, OSError):
            await self._sessions.write(thread_of_session(record.session), commands)

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record."""
        with translate_errors(RedisError, OSError):
            stored = await self._client.hgetall(self._sessions.record_key(run_id))
        fields = {_text(key): _text(value) for key, value in stored.items()}
        return self._texts.open(_from_hash(run_id, fields)) if fields else None

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Yield a session's records, newest first."""
        index = self._sessions.runs_key(hex_session(session))
        async for run_id in self._members(index):
            record = await self.get(run_id)
            if record is None:
                await self._drop(index, run_id)  # it has expired
            else:
                yield record

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Yield the newest record of every session, newest first. Damaged records are left out."""
        async for session in self._members(self._sessions.index):
            try:
                newest = await anext(aiter(self.of_session(session)), None)
            except DamagedSessionError as error:
                logger.warning("A session is left out of a listing: %s", error)
                continue
            if newest is None:
                await self._drop(self._sessions.index, session)
            else:
                yield newest

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records, with their traces and events."""
        index = self._sessions.runs_key(hex_session(session))
        task = hex_session(session)
        events = [f"agent:events{part}:{{}}" for part in ("", "-head", "-read")]
        of_run = ["agent:run:{}", *events, task + "-{}-logs", task + "-{}-nodes"]
        for start in range(0, len(run_ids), PAGE):
            ids = run_ids[start : start + PAGE]
            keys = [self._sessions.prefix + name.format(run_id) for run_id in ids for name in of_run]
            with translate_errors(RedisError, OSError):
                await self._sessions.write(thread_of_session(session), [("DEL", *keys), ("ZREM", index, *ids)])

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        index = self._sessions.runs_key(hex_session(session))
        with suppress(DamagedSessionError):  # the index is deleted below, whatever it is
            await self.delete(session, [run_id async for run_id in self._members(index)])
        with translate_errors(RedisError, OSError):
            await self._sessions.write(thread_of_session(session), [("DEL", index)])
        await self._drop(self._sessions.index, hex_session(session))

    async def _members(self, index: str) -> AsyncIterator[str]:
        """Yield the members of an index, newest first. They are read in pages that grow: most callers need only one."""
        last, size = "+inf", 1
        seen: set[str] = set()
        while True:
            with translate_errors(RedisError, OSError):
                page: list[tuple[bytes, float]] = await self._client.zrange(
                    index, last, "-inf", desc=True, byscore=True, offset=0, num=size + len(seen), withscores=True
                )
            new = [_text(member) for member, _ in page if _text(member) not in seen]
            for member in new:
                yield member
            if len(page) < size + len(seen):
                return
            # Members can share a score, and the next page begins with the score at which this one ends.
            last = repr(page[-1][1])
            seen = {_text(member) for member, score in page if score == page[-1][1]}
            size = min(size * 8, PAGE)

    async def _drop(self, index: str, member: str) -> None:
        with translate_errors(RedisError, OSError):
            await self._client.zrem(index, member)


class RedisTraces:
    """Traces stored as JSON under ``{task_id}-{message_id}-logs``.

    RAGFlow writes with the session id as the task id, but reads with the agent id. Therefore, each trace is stored
    under both if the canvas has an id, that is, if it is not just a file. With another ``ending`` than ``logs``,
    RAGFlow does not read them.
    """

    def __init__(self, sessions: RedisSessions, texts: RecordTexts, ending: str = "logs") -> None:
        self._client = sessions.client
        self._sessions = sessions
        self._texts = texts
        self._ending = ending

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace in the open transaction, or by itself."""
        tasks = [hex_session(record.session)]
        if self._ending == "logs" and _ID.fullmatch(record.canvas_id):
            tasks.append(record.canvas_id)
        text = self._texts.write_trace(record.run_id, self._ending, trace)
        commands = [("SETEX", self._key(task, record.run_id), TRACE_TTL_S, text) for task in tasks]
        with translate_errors(RedisError, OSError):
            await self._sessions.write(thread_of_session(record.session), commands)

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace. Its key is derived from the run's record."""
        with translate_errors(RedisError, OSError):
            session = await self._client.hget(self._sessions.record_key(run_id), "session_id")
            stored = session and await self._client.get(self._key(_text(session), run_id))
        return self._texts.read_trace(run_id, self._ending, stored)

    async def delete_session(self, session: str) -> None:
        """Delete the traces of all recorded runs in a session."""
        session = hex_session(session)
        with translate_errors(RedisError, OSError):
            keys: list[str] = []
            index = self._sessions.runs_key(session)
            for run in await _unless_replaced(self._client.zrange(index, 0, -1)) or ():
                run_id = run.decode("utf-8", "replace")
                record = self._sessions.record_key(run_id)
                canvas = await _unless_replaced(self._client.hget(record, "canvas_id"))
                tasks = [session, *([canvas.decode("utf-8", "replace")] if canvas else [])]
                keys += [self._key(task, run_id) for task in tasks]
            if keys:
                await self._client.delete(*keys)

    def _key(self, task: str, run_id: str) -> str:
        return f"{self._sessions.prefix}{task}-{run_id}-{self._ending}"


async def _unless_replaced(answer: Awaitable[Any]) -> Any:
    """Return what a key contains, or None if something else has stored a value of another type there."""
    try:
        return await answer
    except ResponseError as error:
        if "WRONGTYPE" not in str(error):
            raise
        return None


def _to_hash(record: RunRecord) -> dict[str, str | int]:
    fields = {_NAMES[name]: value for name, value in asdict(record).items() if name != "run_id"}
    return {**fields, "status": STATUSES.index(record.status), "cancel_requested": int(record.is_cancel_requested)}


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number <= MAX_TIME_MS else 0


def _from_hash(run_id: str, stored: Mapping[str, str]) -> RunRecord:
    fields: dict[str, Any] = {name: stored.get(key, "") for name, key in _NAMES.items()}
    number = stored.get("status", "0")
    status = STATUSES[int(number)] if number in map(str, range(len(STATUSES))) else "failed"  # RAGFlow may add more
    times = {name: _number(value) for name, value in fields.items() if name.endswith("_ms")}
    changed: dict[str, Any] = {"status": status, "is_cancel_requested": stored.get("cancel_requested") == "1", **times}
    return RunRecord(run_id, **{**fields, **changed})
