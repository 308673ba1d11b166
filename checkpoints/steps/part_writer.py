"""Writes checkpoints and results of tasks to the inner saver: each by itself, or several in one transaction."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import INTERRUPT

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.checkpoints.steps.checkpoint_texts import pack_checkpoint
from ragflow_lg.checkpoints.steps.preconditions import CHECKPOINT_MISSING
from ragflow_lg.checkpoints.steps.result_buffer import TaskWrites
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, thread_of
from ragflow_lg.checkpoints.steps.step_buffer import NewCheckpoint, Part
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues, WrittenBlobs

_MAX_SEEN = 4096


class _Seen(NamedTuple):
    """The ids of the checkpoints that have been seen last, and of the newest of all."""

    last: str
    newest: str


class SeenCheckpoints:
    """The newest ones of up to `_MAX_SEEN` threads and namespaces."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def remember(self, key: CheckpointKey) -> None:
        """Note that a checkpoint has been stored or read."""
        thread, namespace, checkpoint = key
        before = self._seen.pop((thread, namespace), None)
        self._seen[thread, namespace] = _Seen(checkpoint, max(checkpoint, before.newest if before else ""))
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)

    def newest(self, key: CheckpointKey) -> str | None:
        """Return the id of the newest checkpoint in the thread and the namespace of a key, or None if none is known."""
        seen = self._seen.get(key[:2])
        return seen.newest if seen is not None else None

    def is_last(self, key: CheckpointKey) -> bool:
        """Return whether no other checkpoint has been seen since in the thread and the namespace of this one."""
        seen = self._seen.get(key[:2])
        return seen is not None and seen.last == key.checkpoint

    def forget(self, thread: str) -> None:
        """Forget the checkpoints of a thread."""
        for key in [key for key in self._seen if key[0] == thread]:
            del self._seen[key]


_Texts: TypeAlias = "list[tuple[str, str | None]]"
"""The encoded values of channels."""

logger = logging.getLogger(__name__)


class PartWriter:
    """Writes to one store.

    All methods raise CheckpointError if the store fails, or SessionBusyError if another runner holds the session.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any], values: ThreadValues, seen: SeenCheckpoints) -> None:
        self._inner = inner
        self._values = values
        self._seen = seen

    async def put_checkpoint(self, checkpoint: NewCheckpoint, parts: Sequence[Part]) -> RunnableConfig:
        """Store a checkpoint with the results that led to it and what else belongs into its transaction."""
        return await self._put_together(checkpoint.config, [*parts, checkpoint])

    async def put_all(self, config: RunnableConfig, parts: Sequence[Part]) -> None:
        """Store parts of one run in one transaction or, if that fails, each by itself."""
        try:
            results = [part for part in parts if isinstance(part, TaskWrites)]
            if len(results) < len(parts):
                await self._put_together(config, parts)
                return
            for _, of_checkpoint in groupby(results, lambda part: checkpoint_key(part.config)):
                await self.put_writes(*of_checkpoint)
        except CheckpointError as error:
            self._seen.forget(thread_of(config))
            if len(parts) == 1 or isinstance(error, SessionBusyError):
                raise
            for part in parts:
                await self.put_all(config, [part])

    async def put_writes(self, *parts: TaskWrites) -> None:
        """Store the writes of tasks that belong to one checkpoint.

        If the store has lost the checkpoint, only a pause fails: all other writes are part of the next checkpoint.
        """
        config = parts[0].config
        thread, key = thread_of(config), checkpoint_key(config)

        def pack(blobs: WrittenBlobs) -> list[_Texts]:
            return [self._pack_writes(part.writes, thread, blobs) for part in parts]

        async def put(packed: list[_Texts]) -> None:
            for part, texts in zip(parts, packed, strict=True):
                await self._inner.aput_writes(part.config, texts, part.task_id, part.task_path)

        try:
            await self._values.write(config, pack, put, key if self._seen.is_last(key) else None)
        except CheckpointError as error:
            is_pause = any(channel == INTERRUPT for part in parts for channel, _ in part.writes)
            if is_pause or CHECKPOINT_MISSING not in str(error.__cause__):
                raise
            logger.warning("The session store has lost the latest steps of a run. Its next step is stored completely.")

    async def _put_together(self, config: RunnableConfig, parts: Sequence[Part]) -> RunnableConfig:
        """Store parts in one transaction, and return the config of the last checkpoint."""
        steps = [part for part in parts if not callable(part)]
        thread = thread_of(config)

        def pack(blobs: WrittenBlobs) -> list[Any]:
            return [
                pack_checkpoint(part.checkpoint, part.metadata, thread, self._values, blobs)
                if isinstance(part, NewCheckpoint)
                else self._pack_writes(part.writes, thread, blobs)
                for part in steps
            ]

        async def put(packed: list[Any]) -> RunnableConfig:
            stored = config
            for part, texts in zip(steps, packed, strict=True):
                if isinstance(part, NewCheckpoint):
                    checkpoint, metadata = texts
                    known = checkpoint["channel_versions"]
                    new: Any = {name: version for name, version in part.new_versions.items() if name in known}
                    stored = await self._inner.aput(part.config, checkpoint, metadata, new)
                else:
                    await self._inner.aput_writes(part.config, texts, part.task_id, part.task_path)
            for work in (part for part in parts if callable(part)):
                await work()
            return stored

        return await self._values.write(config, pack, put)

    def _pack_writes(self, writes: Sequence[tuple[str, Any]], thread: str, blobs: WrittenBlobs) -> _Texts:
        return [
            (channel, None if value is None else self._values.encode(channel, value, thread, blobs))
            for channel, value in writes
        ]
