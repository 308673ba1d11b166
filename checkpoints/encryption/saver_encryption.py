"""A LangGraph saver whose texts are encrypted in the saver that it wraps.

Plain remain: the ids of threads, checkpoints, runs and tasks, the names and versions of channels, and which nodes have
run. Their checksum is part of an encrypted text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

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
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, InnerSaver, thread_of

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.encryption import EncryptionKey


class EncryptedSaver(BaseCheckpointSaver[Any]):
    """The saver of a backend with encrypted texts. It is an `InnerSaver`.

    A text can be read only in its session, and as what it is: a value of one channel, or metadata.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any], keys: KeyRing) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner
        self._lister = cast("InnerSaver", inner)
        self._keys = keys

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
        thread = thread_of(config)
        values = {name: self._encrypt(thread, name, value) for name, value in checkpoint["channel_values"].items()}
        stored: Any = dict(metadata)
        if MORE in stored:
            stored[MORE] = self._encrypt(thread, "", stored[MORE])
        return await self.inner.aput(config, {**checkpoint, "channel_values": values}, stored, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes."""
        thread = thread_of(config)
        stored = [(channel, self._encrypt(thread, channel, value)) for channel, value in writes]
        await self.inner.aput_writes(config, stored, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes.

        Raises:
            SessionKeyError: if it cannot be decrypted.
        """
        packed = await self.inner.aget_tuple(config)
        if packed is None:
            return None
        thread, metadata = thread_of(packed.config), cast("dict[str, Any]", dict(packed.metadata or {}))
        if MORE in metadata:
            metadata[MORE] = self._decrypt(thread, "", metadata[MORE])
        writes = [
            (task, channel, self._decrypt(thread, channel, value))
            for task, channel, value in packed.pending_writes or ()
        ]
        values: Any = packed.checkpoint["channel_values"]
        if isinstance(values, Mapping):  # otherwise, it is damaged
            entries = cast("Mapping[str, Any]", values).items()
            values = {channel: self._decrypt(thread, channel, value) for channel, value in entries}
        checkpoint: Checkpoint = {**packed.checkpoint, "channel_values": values}
        return packed._replace(checkpoint=checkpoint, metadata=cast("Any", metadata), pending_writes=writes)

    def _encrypt(self, thread: str, channel: str, value: Any) -> Any:
        return self._keys.encrypt_text(thread, [channel], value) if isinstance(value, str) else value

    def _decrypt(self, thread: str, channel: str, value: Any) -> Any:
        return self._keys.decrypt_text(thread, [channel], value) if isinstance(value, str) else value

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
