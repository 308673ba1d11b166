"""LangGraph's checkpointer for all backends, over the tables of one. See `ragflow_lg.checkpoints.steps.stored_texts`.

LangGraph's own savers turn maps that look like serialized objects into objects, store the whole of each value again,
and know neither leases nor transactions. With texts alone, data stays data on every backend.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import getrandbits
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.types import INTERRUPT
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError, SessionFormatError
from ragflow_lg.base.langgraph_internals import NULL_TASK_ID, advance_ids_past
from ragflow_lg.checkpoints.steps.stored_texts import to_object, to_plain
from ragflow_lg.checkpoints.steps.thread_tables import (
    CHECKPOINT_MISSING,
    NO_LEASE,
    CheckpointKey,
    Precondition,
    StoredCheckpoint,
    ThreadTables,
    checkpoint_key,
    key_config,
    thread_of,
    translating,
)
from ragflow_lg.checkpoints.steps.thread_values import StepResults, ThreadValues
from ragflow_lg.services.sessions import LEASE_TOKEN, StoreWork

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing

FORMAT = 1
"""The format of checkpoints. Whatever another version would misread changes it."""
_FORMAT, _METADATA = "format", "metadata"
CHECKPOINT, METADATA = "checkpoint:", "metadata:"
"""What stands before the id of a checkpoint in the places of its texts."""
_MAX_SEEN = 4096
_MAX_ATTACHED = 4096

_Version: TypeAlias = str | int | float

logger = logging.getLogger(__name__)


class _Checkpoint(Struct, frozen=True):
    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, _Version]
    versions_seen: dict[str, dict[str, _Version]]
    updated_channels: list[str] | None = None


class CanvasSaver(BaseCheckpointSaver[Any]):
    """A LangGraph checkpointer. It is asynchronous only.

    All methods raise CheckpointError if the store fails or its data is damaged. Those that write raise SessionBusyError
    if another runner holds the session.
    """

    def __init__(self, tables: ThreadTables, keys: KeyRing | None = None) -> None:
        """Initialize. With ``keys``, values are encrypted."""
        super().__init__()
        self.tables = tables
        self.values = ThreadValues(tables, keys)
        self._seen: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The checkpoints that have been stored or read last, by thread and namespace."""
        self._attached: OrderedDict[tuple[str, int], StoreWork] = OrderedDict()
        """What is done in the transaction of the next write, by thread and token of the lease."""

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
        """Store a checkpoint. Its metadata name the run that stores it."""
        parent = checkpoint_key(config)
        key = parent._replace(checkpoint=checkpoint["id"])
        run = config.get("metadata", {}).get("run_id")
        more = {_FORMAT: FORMAT, _METADATA: {**({"run_id": run} if run else {}), **metadata}}
        values = {channel: to_plain(channel, value) for channel, value in checkpoint["channel_values"].items()}

        async def put(texts: Sequence[bytes]) -> None:
            await self.tables.put(key, parent.checkpoint, *texts)
            await self._do_attached(config)

        whole = {**checkpoint, "channel_values": values}
        packed = [(CHECKPOINT + key.checkpoint, whole), (METADATA + key.checkpoint, more)]
        await self.values.write(config, packed, put)
        self._attached.pop(_run_of(config), None)
        self._see(key)
        return key_config(key)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes.

        If the store has lost the checkpoint, only a pause fails: all other writes are part of the next checkpoint.
        """
        key = checkpoint_key(config)

        places = [(WRITES_IDX_MAP.get(channel, number), channel) for number, (channel, _) in enumerate(writes)]

        async def put(texts: Sequence[bytes]) -> None:
            rows = [(*place, text) for place, text in zip(places, texts, strict=True)]
            await self.tables.put_writes(key, task_id, rows)
            await self._do_attached(config)

        try:
            is_last = self._seen.get(key[:2]) == key.checkpoint
            await self.values.write(config, writes, put, key if is_last else None)
            self._attached.pop(_run_of(config), None)
        except CheckpointError as error:
            is_pause = any(channel == INTERRUPT for channel, _ in writes)
            if is_pause or CHECKPOINT_MISSING not in str(error.__cause__):
                raise
            logger.warning("The session store has lost the latest steps of a run. Its next step is stored completely.")

    def attach(self, config: RunnableConfig, work: StoreWork) -> None:
        """Do something else in the transaction of what the run of a config stores next, such as storing its record."""
        self._attached[_run_of(config)] = work
        if len(self._attached) > _MAX_ATTACHED:
            self._attached.popitem(last=False)

    async def _do_attached(self, config: RunnableConfig) -> None:
        if (work := self._attached.get(_run_of(config))) is not None:
            await work()

    def _see(self, key: CheckpointKey) -> None:
        self._seen.pop(key[:2], None)
        self._seen[key[:2]] = key.checkpoint
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the given checkpoint, or the newest one, with its pending writes."""
        with translating("read", self.tables.errors):
            stored = await self.read_stored(checkpoint_key(config))
            if stored is None:
                return None
            complete = await self._unpack(stored, await self.metadata_of(stored))
        advance_ids_past(stored.key.checkpoint)
        self._see(stored.key)
        return complete

    async def newest_id(self, config: RunnableConfig) -> str:
        """Return the id of a thread's newest checkpoint, or ``""`` if there is none."""
        stored = await self.read_stored(checkpoint_key(config))
        return stored.key.checkpoint if stored is not None else ""

    async def read_stored(self, key: CheckpointKey) -> StoredCheckpoint | None:
        """Return a checkpoint as it is stored, or the newest one of the namespace if the key has no id."""
        with translating("read", self.tables.errors):
            return await self.tables.get(key)

    async def metadata_of(self, stored: StoredCheckpoint) -> dict[str, Any]:
        """Return the metadata of a checkpoint."""
        with translating("read", self.tables.errors):
            place = METADATA + stored.key.checkpoint
            more = await self.values.decode(stored.key.thread, place, stored.metadata)
            if (found := more[_FORMAT]) != FORMAT:
                raise SessionFormatError(
                    f"Another version of ragflow-lg has written this session (format {found!r:.20}; this version reads"
                    f" format {FORMAT}). Use that version, or delete the session."
                )
            return msgspec.convert(more[_METADATA], dict[str, Any])

    async def _unpack(self, stored: StoredCheckpoint, metadata: dict[str, Any]) -> CheckpointTuple:
        key, decode = stored.key, self.values.decode
        checkpoint: Any = await decode(key.thread, CHECKPOINT + key.checkpoint, stored.checkpoint)
        if msgspec.convert(checkpoint, _Checkpoint).id != key.checkpoint:
            raise ValueError("its id has been changed")
        values = {channel: to_object(channel, value) for channel, value in checkpoint["channel_values"].items()}
        return CheckpointTuple(
            config=key_config(key),
            checkpoint=cast("Checkpoint", {**checkpoint, "channel_values": values}),
            metadata=cast("CheckpointMetadata", metadata),
            parent_config=key_config(key._replace(checkpoint=stored.parent)) if stored.parent else None,
            pending_writes=[
                (task, channel, await decode(key.thread, channel, value)) for task, channel, value in stored.writes
            ],
        )

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
        thread, namespace, only = wanted.get("thread_id"), wanted.get("checkpoint_ns"), wanted.get("checkpoint_id")
        bound: str = (before or {}).get("configurable", {}).get("checkpoint_id") or ""
        count = 0
        async for key in self.list_keys(thread and str(thread), namespace, before=bound):
            if only not in (None, "", key.checkpoint):
                continue
            try:
                found = await self._matching(key, filter or {})
            except DamagedSessionError as error:
                if thread is not None:
                    raise
                logger.warning("A checkpoint is left out of a listing of all sessions: %s", error)
                continue
            if found is None:
                continue
            yield found
            count += 1
            if limit is not None and count >= limit:
                return

    async def _matching(self, key: CheckpointKey, conditions: Mapping[str, Any]) -> CheckpointTuple | None:
        """Return a checkpoint, or None if it does not exist or its metadata are others."""
        with translating("read", self.tables.errors):
            stored = await self.read_stored(key)
            if stored is None:
                return None
            metadata = await self.metadata_of(stored)
            if any(metadata.get(name) != value for name, value in conditions.items()):
                return None
            return await self._unpack(stored, metadata)

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, without reading their values."""
        with translating("read", self.tables.errors):
            async for key in self.tables.list_keys(thread, namespace, before=before, limit=limit):
                if all(isinstance(part, str) for part in cast("tuple[Any, ...]", key)):
                    yield key
                elif thread is not None:
                    raise TypeError("the key of a checkpoint is not a text")
                else:
                    logger.warning("A checkpoint is left out of a listing of all sessions: its key is damaged.")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread. A concurrent writer stores all blobs that it needs again."""
        try:
            with translating("deleted", self.tables.errors):
                await self.tables.delete_thread(thread_id)
        finally:
            self.values.forget(thread_id)
            for place in [place for place in self._seen if place[0] == thread_id]:
                del self._seen[place]

    async def erase(self, keys: Sequence[CheckpointKey], token: int = NO_LEASE) -> None:
        """Delete checkpoints of one thread with their pending writes. Blobs are kept: others may share them.

        Raises:
            SessionBusyError: if the lease with the ``token`` has been lost, or without one, if there is a lease.
        """
        if not keys:
            return
        with translating("deleted", self.tables.errors):
            async with self.tables.transaction(Precondition(keys[0].thread, token)):
                await self.tables.erase(keys)

    @asynccontextmanager
    async def leased(self, config: RunnableConfig) -> AsyncGenerator[None]:
        """Store what the block stores at its end, in one transaction and only if the lease of the config is current."""
        token: int = config.get("configurable", {}).get(LEASE_TOKEN, NO_LEASE)
        with translating("written", self.tables.errors):
            async with self.tables.transaction(Precondition(thread_of(config), token)):
                yield

    def steps(self, config: RunnableConfig) -> StepResults:
        """Return the storage for steps within a thread's nodes."""
        return StepResults(self.values, config)

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Delete everything that the runs have stored, and the whole thread if it would otherwise be empty.

        The checkpoint before them waits for its answers again. If a run has stored no checkpoint, its writes stay with
        the other run's checkpoint. This reads the metadata of all checkpoints of the store.
        """
        runs, keys, parents = set(map(str, run_ids)), list[CheckpointKey](), set[CheckpointKey]()
        async for key in self.list_keys(None):
            stored = await self.read_stored(key)
            if stored is not None and (await self.metadata_of(stored)).get("run_id") in runs:
                keys.append(key)
                parents.add(key._replace(checkpoint=stored.parent))
        for parent in parents - set(keys):
            await self._reopen(parent)
        for thread in {key.thread for key in keys}:
            await self.erase([key for key in keys if key.thread == thread])
            if not [key async for key in self.list_keys(thread, limit=1)]:
                await self.adelete_thread(thread)

    async def _reopen(self, key: CheckpointKey) -> None:
        """Remove the pending writes made since the checkpoint's forms were shown, or all of them if it has no forms."""
        stored = await self.aget_tuple(key_config(key)) if key.checkpoint else None
        if stored is None:
            return
        writes = stored.pending_writes or []
        waiting = {task for task, channel, _ in writes if channel == INTERRUPT}
        finished = {task for task, _, _ in writes if waiting and task not in waiting and task != NULL_TASK_ID}
        remaining = [write for write in writes if write[0] in finished or write[1] == INTERRUPT]
        if len(remaining) < len(writes):
            await self.erase([key])
            await self.copy(stored._replace(pending_writes=remaining), key.thread)

    async def copy(self, stored: CheckpointTuple, thread: str, token: int = NO_LEASE) -> None:
        """Store a checkpoint with its pending writes in a thread, whose lease has the token."""
        parent = checkpoint_key(stored.parent_config).checkpoint if stored.parent_config else ""
        place = {"thread_id": thread, "checkpoint_ns": checkpoint_key(stored.config).namespace, LEASE_TOKEN: token}
        config: Any = {"configurable": place | ({"checkpoint_id": parent} if parent else {})}
        metadata: Any = {**stored.metadata, **({"thread_id": thread} if "thread_id" in stored.metadata else {})}
        target: Any = await self.aput(config, stored.checkpoint, metadata, stored.checkpoint["channel_versions"])
        target["configurable"][LEASE_TOKEN] = token
        tasks: dict[str, list[tuple[str, Any]]] = {}
        for task, channel, value in stored.pending_writes or ():
            tasks.setdefault(task, []).append((channel, value))
        for task, writes in tasks.items():
            await self.aput_writes(target, writes, task)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all but the newest checkpoint of each namespace. Any other strategy deletes everything."""
        for thread in map(str, thread_ids):
            if strategy != "keep_latest":
                await self.adelete_thread(thread)
                continue
            keys = [key async for key in self.list_keys(thread)]
            newest = {key.namespace: key for key in reversed(keys)}  # the last one wins
            await self.erase([key for key in keys if newest[key.namespace] != key])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread's checkpoints with their pending writes. Steps within nodes are not copied."""
        keys = [key async for key in self.list_keys(str(source_thread_id))]
        for key in reversed(keys):
            if (stored := await self.aget_tuple(key_config(key))) is not None:
                await self.copy(stored, str(target_thread_id))


def _run_of(config: RunnableConfig) -> tuple[str, int]:
    return thread_of(config), config.get("configurable", {}).get(LEASE_TOKEN, 0)
