"""A LangGraph saver whose texts are encrypted in the saver that it wraps.

Plain remain: the ids of threads, checkpoints, runs and tasks, the names and versions of channels, and which nodes have
run. Their checksum is part of an encrypted text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from msgspec.structs import replace

from ragflow_lg.checkpoints.encryption.blob_encryption import EncryptedBlobs
from ragflow_lg.checkpoints.encryption.record_encryption import EncryptedRecords, EncryptedTraces
from ragflow_lg.checkpoints.key_ring import KeyRing
from ragflow_lg.checkpoints.steps.checkpoint_texts import MORE
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, InnerSaver, checkpoint_key

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.encryption import EncryptionKey

MAX_LAST = 64
"""For how many threads and namespaces the values of the last checkpoint are kept."""


class _Value(NamedTuple):
    """The value of a channel, and how it is stored."""

    place: list[str]
    plain: Any
    stored: Any


class EncryptedSaver(BaseCheckpointSaver[Any]):
    """The saver of a backend with encrypted texts. It is an `InnerSaver`."""

    def __init__(self, inner: BaseCheckpointSaver[Any], keys: KeyRing) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner
        self._lister = cast("InnerSaver", inner)
        self.keys = keys
        self._last: OrderedDict[tuple[str, str], dict[str, _Value]] = OrderedDict()
        """The values of the last checkpoints, by thread and namespace: most steps change only a few channels."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next version of a channel, in the inner saver's format."""
        return self.inner.get_next_version(current, channel)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        key = checkpoint_key(config)._replace(checkpoint=checkpoint["id"])
        values = self._encrypt_values(key, checkpoint)
        stored: Any = dict(metadata)
        if isinstance(stored.get(MORE), str):
            stored[MORE] = self.keys.encrypt_text(key.thread, _metadata_place(key), stored[MORE])
        return await self.inner.aput(config, {**checkpoint, "channel_values": values}, stored, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes."""
        key = checkpoint_key(config)
        stored = [
            (channel, self.keys.encrypt_text(key.thread, _write_place(key, task_id, channel), value))
            if isinstance(value, str)
            else (channel, value)
            for channel, value in writes
        ]
        await self.inner.aput_writes(config, stored, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes.

        Raises:
            SessionKeyError: if it cannot be decrypted.
        """
        packed = await self.inner.aget_tuple(config)
        return packed and self._decrypt(packed)

    def _decrypt(self, packed: CheckpointTuple) -> CheckpointTuple:
        key, decrypt = checkpoint_key(packed.config), self.keys.decrypt_text
        metadata: Any = dict(packed.metadata or {})
        if isinstance(metadata.get(MORE), str):
            metadata[MORE] = decrypt(key.thread, _metadata_place(key), metadata[MORE])
        writes = [
            (task, channel, decrypt(key.thread, _write_place(key, task, channel), value))
            if isinstance(value, str)
            else (task, channel, value)
            for task, channel, value in packed.pending_writes or ()
        ]
        values = self._decrypt_values(key, packed.checkpoint)
        checkpoint: Checkpoint = {**packed.checkpoint, "channel_values": values}
        return packed._replace(checkpoint=checkpoint, metadata=metadata, pending_writes=writes)

    def _encrypt_values(self, key: CheckpointKey, checkpoint: Checkpoint) -> dict[str, Any]:
        """Return the values of channels, encrypted. Those that the checkpoint before had are not encrypted again."""
        place = key.thread, key.namespace
        before, now = self._last.pop(place, {}), dict[str, _Value]()
        for channel, value in checkpoint["channel_values"].items():
            at = _value_place(key, checkpoint, channel)
            known = before.get(channel)
            if not isinstance(value, str):
                now[channel] = _Value(at, value, value)
            elif known is not None and known[:2] == (at, value):
                now[channel] = known
            else:
                now[channel] = _Value(at, value, self.keys.encrypt_text(key.thread, at, value))
        self._last[place] = now
        if len(self._last) > MAX_LAST:
            self._last.popitem(last=False)
        return {channel: value.stored for channel, value in now.items()}

    def _decrypt_values(self, key: CheckpointKey, checkpoint: Checkpoint) -> dict[str, Any]:
        values: Any = checkpoint["channel_values"]
        if not isinstance(values, Mapping):
            return values  # damaged
        return {
            channel: self.keys.decrypt_text(key.thread, _value_place(key, checkpoint, channel), value)
            if isinstance(value, str)
            else value
            for channel, value in cast("Mapping[str, Any]", values).items()
        }

    def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first."""
        return self._lister.list_keys(thread, namespace, before=before, limit=limit)

    async def keys_of_runs(self, runs: Collection[str]) -> Sequence[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        return await self._lister.keys_of_runs(runs)

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes."""
        await self._lister.erase(keys)

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the space that checkpoints and their pending writes take."""
        return await self._lister.stored_bytes(keys)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        await self.inner.adelete_thread(thread_id)

    async def release_space(self) -> None:
        """Return the space of deleted data to the operating system."""
        await self._lister.release_space()


def _value_place(key: CheckpointKey, checkpoint: Checkpoint, channel: str) -> list[str]:
    """Return the place of a value: a version of its channel, not a checkpoint, because checkpoints in memory share it.

    The versions of a checkpoint are part of its checksum.
    """
    versions = cast("Mapping[str, Any]", checkpoint["channel_versions"])
    return ["value", key.namespace, channel, str(versions.get(channel))]


def _metadata_place(key: CheckpointKey) -> list[str]:
    return ["metadata", key.namespace, key.checkpoint]


def _write_place(key: CheckpointKey, task: str, channel: str) -> list[str]:
    return ["write", key.namespace, key.checkpoint, task, channel]


def encrypted_store(store: Store, keys: Sequence[EncryptionKey]) -> Store:
    """Return a store that encrypts what it stores in another one, which has just been opened.

    Raises:
        CheckpointError: if the package that encrypts is not installed.
    """
    ring, plain = KeyRing(keys), store.saver
    blobs = EncryptedBlobs(plain.values.blobs, ring)
    saver = CanvasSaver(
        EncryptedSaver(plain.inner, ring),
        blobs,
        errors=plain.values.errors.kinds,
        transaction=blobs.guard(plain.values.transaction),
    )
    return replace(
        store,
        saver=saver,
        runs=EncryptedRecords(store.runs, ring),
        traces=EncryptedTraces(store.traces, ring, "trace"),
        node_logs=EncryptedTraces(store.node_logs, ring, "nodes"),
        keys=ring,
    )
