"""The checkpointer for all backends, which wraps LangGraph's own saver.

LangGraph's savers turn maps that look like serialized objects into objects, or change values (Redis). This wrapper
passes them only text, so that data stays data on every backend, and stores large parts only once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from random import getrandbits
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.langgraph_internals import advance_ids_past
from ragflow_lg.checkpoints.steps.checkpoint_texts import (
    PLAIN_METADATA,
    has_metadata,
    is_key,
    unpack_checkpoint,
)
from ragflow_lg.checkpoints.steps.part_writer import PartWriter
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.preconditions import NO_LEASE, Blobs, OpenTransaction, Precondition
from ragflow_lg.checkpoints.steps.saver_errors import SaverErrors
from ragflow_lg.checkpoints.steps.saver_operations import (
    CheckpointKey,
    InnerSaver,
    PruningSaver,
    checkpoint_key,
    key_config,
    thread_of,
)
from ragflow_lg.checkpoints.steps.session_parts import SessionParts
from ragflow_lg.checkpoints.steps.thread_values import StepResults, ThreadValues
from ragflow_lg.services.sessions import LEASE_TOKEN, StoreWork

logger = logging.getLogger(__name__)


def _no_transaction(precondition: Precondition | None) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class CanvasSaver(PruningSaver):
    """A LangGraph checkpointer that wraps another one. It is asynchronous only.

    All methods raise CheckpointError if the store fails or its data is damaged. Those that write raise SessionBusyError
    if another runner holds the session.
    """

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any],
        blobs: Blobs,
        *,
        errors: tuple[type[Exception], ...] = (),
        transaction: OpenTransaction = _no_transaction,
    ) -> None:
        """Wrap a saver that is also an `InnerSaver`.

        ``errors`` are the exceptions it raises when its store fails; they become CheckpointError. ``transaction``
        surrounds every write to a thread.
        """
        super().__init__(serde=PlainSerializer())
        self.inner = inner
        self._lister = cast("InnerSaver", inner)
        self._errors = SaverErrors(errors)
        self.values = ThreadValues(blobs, self._errors, transaction)
        self.parts = SessionParts(inner, self.values)
        self._writer = PartWriter(inner, self.values)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after the greatest one so far, which LangGraph's savers may have made.

        The random part distinguishes steps that follow the same one. LangGraph's own versions have 49 characters, and
        every checkpoint has those of all channels.
        """
        return f"{int(str(current or 0).partition('.')[0]) + 1:08}.{getrandbits(24):06x}"

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        await self._writer.put_checkpoint(config, checkpoint, cast("Mapping[str, Any]", metadata), new_versions)
        return key_config(checkpoint_key(config)._replace(checkpoint=checkpoint["id"]))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes.

        If the store has lost the checkpoint, only a pause fails: all other writes are part of the next checkpoint.
        """
        await self._writer.put_writes(config, writes, task_id, task_path)

    def attach(self, config: RunnableConfig, work: StoreWork) -> None:
        """Do something else in the transaction of what the run of a config stores next, such as storing its record."""
        self._writer.attach(config, work)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the given checkpoint, or the newest one, with its pending writes."""
        packed = await self._get_packed(config)
        if packed is None:
            return None
        unpacked = await unpack_checkpoint(packed, self.values)
        advance_ids_past(unpacked.checkpoint["id"])
        self._writer.see(checkpoint_key(unpacked.config))
        return unpacked

    async def newest_id(self, config: RunnableConfig) -> str:
        """Return the id of a thread's newest checkpoint, or ``""`` if there is none."""
        packed = await self._get_packed(config)
        return packed.checkpoint["id"] if packed is not None else ""

    async def _get_packed(self, config: RunnableConfig) -> CheckpointTuple | None:
        with self._errors.translate_read():
            return await self.inner.aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints that match all arguments, newest first. They are read one at a time.

        Damaged ones are an error if ``config`` names a thread, and are left out otherwise.
        """
        wanted = (config or {}).get("configurable", {})
        place = wanted.get("thread_id"), wanted.get("checkpoint_ns")
        bound: str = (before or {}).get("configurable", {}).get("checkpoint_id") or ""
        conditions = filter or {}
        plain = {key: value for key, value in conditions.items() if key in PLAIN_METADATA}
        count = 0
        async for key in self._matching_keys(*place, wanted.get("checkpoint_id"), bound):
            try:
                packed = await self._get_packed(key_config(key))
                if packed is None or not has_metadata(packed, plain):
                    continue
                unpacked = await unpack_checkpoint(packed, self.values)
            except DamagedSessionError as error:
                if place[0] is not None:
                    raise
                logger.warning("A checkpoint is left out of a listing of all sessions: %s", error)
                continue
            if not has_metadata(unpacked, conditions):
                continue
            yield unpacked
            count += 1
            if limit is not None and count >= limit:
                return

    async def _matching_keys(
        self, thread: str | None, namespace: str | None, checkpoint: str | None, bound: str
    ) -> AsyncIterator[CheckpointKey]:
        if thread is not None and namespace is not None and checkpoint:
            if not bound or checkpoint < bound:
                yield CheckpointKey(str(thread), namespace, checkpoint)
            return
        async for key in self.list_keys(None if thread is None else str(thread), namespace, before=bound):
            if checkpoint in (None, "", key.checkpoint):
                yield key

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, without reading their values."""
        with self._errors.translate_read():
            async for key in self._lister.list_keys(thread, namespace, before=before, limit=limit):
                if is_key(key):
                    yield key
                elif thread is not None:
                    raise TypeError("the key of a checkpoint is not a text")
                else:
                    logger.warning("A checkpoint is left out of a listing of all sessions: its key is damaged.")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread. A concurrent writer stores all blobs that it needs again."""
        self._forget(thread_id)
        try:
            with self._errors.translate("deleted"):
                await self.inner.adelete_thread(thread_id)
        finally:
            self._forget(thread_id)

    async def keys_of_runs(self, runs: Collection[str]) -> Sequence[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored, on any thread."""
        with self._errors.translate("read"):
            return await self._lister.keys_of_runs(runs)

    async def erase(self, keys: Sequence[CheckpointKey], token: int | None = None) -> None:
        """Delete checkpoints and their pending writes. Blobs are kept, since other checkpoints may share them.

        If a lease's ``token`` is given, the checkpoints belong to one thread, and the lease must be current.
        """
        if not keys:
            return
        with self._errors.translate("deleted"):
            async with self.values.transaction(None if token is None else Precondition(keys[0].thread, token)):
                await self._lister.erase(keys)

    async def source_of(self, key: CheckpointKey) -> str:
        """Return why a checkpoint was stored: ``input`` at the beginning of a turn."""
        packed = await self._get_packed(key_config(key))
        return str((packed.metadata or {}).get("source", "")) if packed is not None else ""

    async def release_space(self) -> None:
        """Return the space of deleted data to the operating system."""
        with self._errors.translate("deleted"):
            await self._lister.release_space()

    @asynccontextmanager
    async def leased(self, config: RunnableConfig) -> AsyncGenerator[None]:
        """Store what the block stores at its end, in one transaction and only if the lease of the config is current."""
        token: int = config.get("configurable", {}).get(LEASE_TOKEN, NO_LEASE)
        with self._errors.translate("written"):
            async with self.values.transaction(Precondition(thread_of(config), token)):
                yield

    def steps(self, config: RunnableConfig) -> StepResults:
        """Return the storage for steps within a thread's nodes."""
        return StepResults(self.values, config)

    def _forget(self, thread: str) -> None:
        self.values.forget(thread)
        self._writer.forget(thread)
