"""Deletes the old turns of a session: their checkpoints, the parts that only these use, and their run records.

The last turn is always kept, with everything that an open form or an interrupted turn needs to go on. All functions
raise CheckpointError if the store fails, or SessionBusyError if a runner holds the session.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.steps.saver import CanvasSaver
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.sessions import RunRecord, Traces

BATCH = 200
"""Number of checkpoints that are deleted in one transaction."""

_UUID_EPOCH_MS = 12_219_292_800_000
"""Time from the beginning of the Gregorian calendar, from which ids count, to 1970."""
_PART = re.compile(r"[0-9a-f]{32}")


def is_part(name: str) -> bool:
    """Return whether a name among those of a thread's blobs is one of a blob or step. Redis has another one."""
    return _PART.fullmatch(name) is not None


class PruneLimits(Struct, frozen=True):
    """Which turns are kept: the last ``turns``, and all that were running at or after ``since_ms``, if it is not 0."""

    turns: int = 1
    since_ms: int = 0


class Pruned(Struct, frozen=True):
    """What was deleted, or what a dry run would delete."""

    checkpoints: int = 0
    parts: int = 0
    """Large values that only the deleted checkpoints used."""
    runs: int = 0
    bytes: int = 0
    """Size of the checkpoints and parts as they were stored."""


async def prune_session(store: Store, session: str, limits: PruneLimits, *, is_dry_run: bool = False) -> Pruned:
    """Delete the old turns of a session.

    A crash leaves a session that can be used and pruned again.
    """
    async with hold_lease(store.leases, session) as token:
        return await _Pruning(store, session, token).prune(limits, is_dry_run)


class _Pruning:
    """The pruning of one session, whose lease is held."""

    def __init__(self, store: Store, session: str, token: int) -> None:
        self._store = store
        self._saver: CanvasSaver = store.saver
        self._session = session
        self._thread = str(thread_of_session(session))
        self._token = token

    async def prune(self, limits: PruneLimits, is_dry_run: bool) -> Pruned:
        first = await self._find_first(limits)
        keys = [key async for key in self._saver.list_keys(self._thread)]
        old = [key for key in reversed(keys) if key.checkpoint < first]  # oldest first: the rest is always complete
        runs = await self._old_runs(first)
        kept = [key for key in keys if key.checkpoint >= first]
        parts = await self._unused_parts(kept)
        freed = await self._saver.parts.stored_bytes(self._thread, old, parts)
        if not is_dry_run:
            for start in range(0, len(old), BATCH):
                await self._saver.erase(old[start : start + BATCH], self._token)
            await self._saver.parts.erase(self._thread, parts, self._token)
            await self._store.runs.delete(self._session, runs)
            await self._saver.release_space()
        return Pruned(len(old), len(parts), len(runs), freed)

    async def _find_first(self, limits: PruneLimits) -> str:
        """Return the id of the first checkpoint to keep, or ``""`` if all are kept."""
        turns, first = 0, ""
        async with aclosing(cast("Any", self._saver.list_keys(self._thread, ""))) as keys:
            async for key in keys:
                is_recent = bool(limits.since_ms) and _time_ms(key.checkpoint) >= limits.since_ms
                if first and turns >= max(limits.turns, 1) and not is_recent:
                    return first
                if await self._saver.source_of(key) == "input":
                    turns, first = turns + 1, key.checkpoint
        return ""

    async def _old_runs(self, first: str) -> list[str]:
        """Return the ids of the runs that ended before the first checkpoint to keep."""
        ids: list[str] = []
        records = [record async for record in self._store.runs.of_session(self._session)]
        for record in records[1:]:
            if ids or (record.checkpoint and record.checkpoint < first):
                ids.append(record.run_id)
        return ids

    async def _unused_parts(self, kept: Collection[CheckpointKey]) -> list[str]:
        """Return the names of the parts that no kept checkpoint uses.

        Results of steps inside nodes are kept while the last turn is unfinished; afterwards nothing reads them.
        """
        names = [name for name in await self._saver.parts.names(self._thread) if is_part(name)]
        used = await self._saver.parts.of_checkpoints(self._thread, kept)
        newest: RunRecord | None = await _first(self._store.runs.of_session(self._session))
        unused = [name for name in names if name not in used]
        if newest is None or newest.status != "succeeded":
            used = await self._saver.parts.of_steps(self._thread, unused)
        return [name for name in unused if name not in used]


async def _first(records: AsyncIterator[RunRecord]) -> RunRecord | None:
    async for record in records:
        return record
    return None


def _time_ms(checkpoint: str) -> int:
    """Return when a checkpoint was stored, or 0 if its id is not one of LangGraph's."""
    try:
        stored = uuid.UUID(checkpoint)
    except ValueError:
        return 0
    ticks = (stored.int >> 80) << 12 | (stored.int >> 64) & 0xFFF
    return ticks // 10_000 - _UUID_EPOCH_MS if stored.version == 6 else 0


class Removed(Struct, frozen=True):
    """What has been deleted."""

    checkpoints: int
    parts: int
    """Long texts and results of steps."""
    runs: int
    traces: int
    """Traces of agents and logs of nodes."""


async def remove_session(store: Store, session: str) -> Removed:
    """Delete everything that a store has of a session."""
    thread = str(thread_of_session(session))
    checkpoints = [1 async for _ in store.saver.list_keys(thread)]
    parts = [name for name in await store.saver.parts.names(thread) if is_part(name)]
    runs = [record.run_id async for record in store.runs.of_session(session)]
    traces = [1 for run in runs for table in (store.traces, store.node_logs) if await _has_trace(table, run)]
    await store.delete_session(session)
    return Removed(len(checkpoints), len(parts), len(runs), len(traces))


async def _has_trace(traces: Traces, run_id: str) -> bool:
    try:
        return await traces.get(run_id) is not None
    except SessionKeyError:  # it is deleted without being read
        return True
