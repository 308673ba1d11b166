"""Writes checkpoints and results of tasks to the inner saver, each with its values in one transaction."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.types import INTERRUPT

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.steps.checkpoint_texts import pack_checkpoint
from ragflow_lg.checkpoints.steps.preconditions import CHECKPOINT_MISSING
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, thread_of
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues, WrittenBlobs
from ragflow_lg.services.sessions import LEASE_TOKEN, StoreWork

_MAX_SEEN = 4096
_MAX_ATTACHED = 4096

logger = logging.getLogger(__name__)


class PartWriter:
    """Writes to one store.

    All methods that write raise CheckpointError if the store fails, or SessionBusyError if another runner holds the
    session.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any], values: ThreadValues) -> None:
        self._inner = inner
        self._values = values
        self._seen: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The checkpoints that have been stored or read last, by thread and namespace."""
        self._attached: OrderedDict[tuple[str, int], StoreWork] = OrderedDict()
        """What is done in the transaction of the next write, by thread and token of the lease."""

    def see(self, key: CheckpointKey) -> None:
        """Note that a checkpoint has been stored or read."""
        self._seen.pop(key[:2], None)
        self._seen[key[:2]] = key.checkpoint
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)

    def forget(self, thread: str) -> None:
        """Forget the checkpoints of a thread."""
        for place in [place for place in self._seen if place[0] == thread]:
            del self._seen[place]

    def attach(self, config: RunnableConfig, work: StoreWork) -> None:
        """Do something else in the transaction of the next write of a run, whose config contains its lease's token."""
        self._attached[_run_of(config)] = work
        if len(self._attached) > _MAX_ATTACHED:
            self._attached.popitem(last=False)

    async def _do_attached(self, config: RunnableConfig) -> None:
        if (work := self._attached.get(_run_of(config))) is not None:
            await work()

    async def put_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: ChannelVersions,
    ) -> None:
        """Store a checkpoint. Its metadata name the run that stores it."""
        key = checkpoint_key(config)
        if run := config.get("metadata", {}).get("run_id"):
            metadata = {"run_id": run, **metadata}

        def pack(blobs: WrittenBlobs) -> tuple[Any, Any]:
            return pack_checkpoint(checkpoint, metadata, key.thread, self._values, blobs)

        async def put(packed: tuple[Any, Any]) -> None:
            known = packed[0]["channel_versions"]
            new: Any = {name: version for name, version in new_versions.items() if name in known}
            await self._inner.aput(config, *packed, new)
            await self._do_attached(config)

        await self._values.write(config, pack, put)
        self._attached.pop(_run_of(config), None)
        self.see(key._replace(checkpoint=checkpoint["id"]))

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        """Store a task's writes.

        If the store has lost the checkpoint, only a pause fails: all other writes are part of the next checkpoint.
        """
        key = checkpoint_key(config)

        def pack(blobs: WrittenBlobs) -> list[tuple[str, str | None]]:
            return [
                (channel, None if value is None else self._values.encode(channel, value, key.thread, blobs))
                for channel, value in writes
            ]

        async def put(packed: list[tuple[str, str | None]]) -> None:
            await self._inner.aput_writes(config, packed, task_id, task_path)
            await self._do_attached(config)

        try:
            is_last = self._seen.get(key[:2]) == key.checkpoint
            await self._values.write(config, pack, put, key if is_last else None)
            self._attached.pop(_run_of(config), None)
        except CheckpointError as error:
            is_pause = any(channel == INTERRUPT for channel, _ in writes)
            if is_pause or CHECKPOINT_MISSING not in str(error.__cause__):
                raise
            logger.warning("The session store has lost the latest steps of a run. Its next step is stored completely.")


def _run_of(config: RunnableConfig) -> tuple[str, int]:
    return thread_of(config), config.get("configurable", {}).get(LEASE_TOKEN, 0)
