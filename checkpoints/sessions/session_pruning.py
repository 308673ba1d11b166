"""Deletes the old turns of a session: their checkpoints, the parts that only these use, and their run records.

The last turn is always kept, with everything that an open form or an interrupted turn needs to go on. All functions
raise CheckpointError if the store fails, or SessionBusyError if a runner holds the session.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.steps.saver import CHECKPOINT, METADATA
from ragflow_lg.checkpoints.steps.thread_tables import CheckpointKey, translating
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.steps.saver import CanvasSaver
    from ragflow_lg.checkpoints.store import Store

BATCH = 200
"""Number of checkpoints that are deleted in one transaction."""

_UUID_EPOCH_MS = 12_219_292_800_000
"""Time from the beginning of the Gregorian calendar, from which ids count, to 1970."""


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
        parts = await self._unused_parts([key for key in keys if key.checkpoint >= first])
        size = sum([len(text) for key in old for _, text in await self._texts_of(key)])
        with translating("read", self._saver.tables.errors):
            for start in range(0, len(parts), BATCH):
                found = await self._saver.tables.find_blobs(self._thread, parts[start : start + BATCH])
                size += sum(map(len, found.values()))
        if not is_dry_run:
            for start in range(0, len(old), BATCH):
                await self._saver.erase(old[start : start + BATCH], self._token)
            await self._saver.values.erase_blobs(self._thread, parts, self._token)
            await self._store.runs.delete(self._session, runs)
        return Pruned(len(old), len(parts), len(runs), size)

    async def _texts_of(self, key: CheckpointKey) -> list[tuple[str, bytes]]:
        """Return all texts of a checkpoint as they are stored, with their places."""
        stored = await self._saver.read_stored(key)
        if stored is None:
            return []
        places = [(CHECKPOINT + key.checkpoint, stored.checkpoint), (METADATA + key.checkpoint, stored.metadata)]
        return places + [(channel, value) for _, channel, value in stored.writes]

    async def _find_first(self, limits: PruneLimits) -> str:
        """Return the id of the first checkpoint to keep, or ``""`` if all are kept."""
        turns, first = 0, ""
        for key in [key async for key in self._saver.list_keys(self._thread, "")]:
            is_recent = bool(limits.since_ms) and _time_ms(key.checkpoint) >= limits.since_ms
            if first and turns >= max(limits.turns, 1) and not is_recent:
                return first
            stored = await self._saver.read_stored(key)
            if stored is not None and (await self._saver.metadata_of(stored)).get("source") == "input":
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

    async def _unused_parts(self, kept: Sequence[CheckpointKey]) -> list[str]:
        """Return the names of the parts that no kept checkpoint uses.

        Results of steps inside nodes are kept while the last turn is unfinished; afterwards nothing reads them.
        """
        values = self._saver.values
        blobs, steps = await values.names(self._thread)
        texts = [text for key in kept for text in await self._texts_of(key)]
        newest = await anext(aiter(self._store.runs.of_session(self._session)), None)
        if newest is None or newest.status != "succeeded":
            texts += [step async for step in values.steps(self._thread)]
            steps = []
        used = await values.blobs_of(self._thread, texts)
        return [*(name for name in blobs if name not in used), *steps]


def _time_ms(checkpoint: str) -> int:
    """Return when a checkpoint was stored, or 0 if its id is not one of LangGraph's."""
    try:
        stored = uuid.UUID(checkpoint)
    except ValueError:
        return 0
    ticks = (stored.int >> 80) << 12 | (stored.int >> 64) & 0xFFF
    return ticks // 10_000 - _UUID_EPOCH_MS if stored.version == 6 else 0


async def count_entries(store: Store, session: str) -> tuple[int, int]:
    """Return how many checkpoints and runs of a session can be read."""
    counts = [0, 0]
    for number, entries in enumerate(
        (store.saver.list_keys(thread_of_session(session)), store.runs.of_session(session))
    ):
        with suppress(CheckpointError):
            async for _ in entries:
                counts[number] += 1
    return counts[0], counts[1]
