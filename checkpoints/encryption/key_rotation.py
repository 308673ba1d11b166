"""Encrypts what a store has of a session again, with the key that encrypts now.

Each transaction leaves the session readable, so an interrupted reencryption can be repeated: it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.encryption.blob_encryption import PAGE, EncryptedBlobs
from ragflow_lg.checkpoints.encryption.record_encryption import EncryptedRuns, EncryptedTraces
from ragflow_lg.checkpoints.encryption.saver_encryption import EncryptedSaver
from ragflow_lg.checkpoints.sessions.session_pruning import is_part
from ragflow_lg.checkpoints.steps.checkpoint_texts import texts_of
from ragflow_lg.checkpoints.steps.preconditions import Precondition
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, key_config, writes_of_tasks
from ragflow_lg.services.sessions import hold_lease, with_lease_token

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.sessions import RunRecord

BATCH = 50
"""How many checkpoints are written in one transaction."""


class Reencrypted(Struct, frozen=True):
    """What was encrypted again; all zero if everything was encrypted with the current key already."""

    checkpoints: int = 0
    parts: int = 0
    records: int = 0
    """Run records and traces."""

    def __bool__(self) -> bool:
        """Return whether anything was encrypted."""
        return bool(self.checkpoints or self.parts or self.records)


async def sessions_of(store: Store) -> list[str]:
    """Return the ids of all sessions of which a store has checkpoints or records."""
    threads = {key.thread async for key in store.saver.list_keys(None)}
    sessions = {session_of_thread(thread) for thread in threads}
    return sorted(sessions | {record.session async for record in store.runs.sessions()})


async def reencrypt_session(store: Store, session: str) -> Reencrypted:
    """Encrypt everything of a session with the current key.

    Raises:
        SessionBusyError: if a runner holds the session.
        SessionKeyError: if it cannot be decrypted.
        CheckpointError: if the store fails, or does not encrypt.
    """
    saver, blobs = store.saver.inner, store.saver.values.blobs
    if not isinstance(saver, EncryptedSaver) or not isinstance(blobs, EncryptedBlobs):
        raise CheckpointError("The store is not encrypted: the settings have no `encryption_keys`.")
    async with hold_lease(store.leases, session) as token:
        work = _Reencryption(store, saver, blobs, str(thread_of_session(session)), token)
        parts = await work.encrypt_parts()
        checkpoints = await work.encrypt_checkpoints()
        return Reencrypted(checkpoints, parts, await _encrypt_records(store, session))


class _Reencryption:
    """The reencryption of one session, whose lease is held."""

    def __init__(self, store: Store, saver: EncryptedSaver, blobs: EncryptedBlobs, thread: str, token: int) -> None:
        self._saver = saver
        self._blobs = blobs
        self._values = store.saver.values
        self._list_keys = store.saver.list_keys
        self._thread = thread
        self._token = token

    async def encrypt_parts(self) -> int:
        """Encrypt the blobs and the results of steps. Return how many were changed."""
        self._values.forget(self._thread)
        with self._values.errors.translate("read"):
            names = [name for name in await self._blobs.inner.names(self._thread) if is_part(name)]
        count = 0
        for start in range(0, len(names), PAGE):
            with self._values.errors.translate("read"):
                found = await self._blobs.inner.find(self._thread, names[start : start + PAGE])
            old = {name: text for name, text in found.items() if not self._saver.keys.is_current(text)}
            if not old:
                continue
            plain = dict(self._blobs.decrypt(self._thread, name, text) for name, text in old.items())
            with self._values.errors.translate("written"):
                async with self._values.transaction(Precondition(self._thread, self._token)):
                    await self._blobs.put(self._thread, plain)
                    await self._blobs.inner.erase(self._thread, list(old))
            count += len(old)
        return count

    async def encrypt_checkpoints(self) -> int:
        """Encrypt the checkpoints and their pending writes. Return how many were changed."""
        keys = [key async for key in self._list_keys(self._thread)]
        newest = {key.namespace: key for key in reversed(keys)}
        count = 0
        for start in range(0, len(keys), BATCH):
            batch = [key for key in keys[start : start + BATCH] if not await self._is_current(key)]
            if batch:
                # A saver regards the checkpoint that it has stored last as the newest one.
                ends = {newest[key.namespace] for key in batch}
                await self._put([*(key for key in reversed(batch) if key not in ends), *ends])
            count += len(batch)
        return count

    async def _is_current(self, key: CheckpointKey) -> bool:
        with self._values.errors.translate_read():
            packed = await self._saver.inner.aget_tuple(key_config(key))
        return packed is None or all(map(self._saver.keys.is_current, texts_of(packed)))

    async def _put(self, keys: Sequence[CheckpointKey]) -> None:
        """Store checkpoints again, in this order."""
        with self._values.errors.translate_read():
            found = [await self._saver.aget_tuple(key_config(key)) for key in keys]
        with self._values.errors.translate("written"):
            async with self._values.transaction(Precondition(self._thread, self._token)):
                await self._saver.erase(keys)
                for packed in filter(None, found):
                    await self._put_one(packed)

    async def _put_one(self, packed: CheckpointTuple) -> None:
        key = checkpoint_key(packed.config)
        parent = checkpoint_key(packed.parent_config).checkpoint if packed.parent_config else ""
        config = with_lease_token(key_config(key._replace(checkpoint=parent)), self._token)
        metadata: Any = dict(packed.metadata or {})
        await self._saver.aput(config, packed.checkpoint, metadata, packed.checkpoint["channel_versions"])
        for task, writes in writes_of_tasks(packed).items():
            await self._saver.aput_writes(key_config(key), writes, task)


async def _encrypt_records(store: Store, session: str) -> int:
    """Encrypt the reasons of runs and the traces. Return how many were changed."""
    records: list[RunRecord] = [record async for record in store.runs.of_session(session)]
    count = 0
    for record in reversed(records):
        if isinstance(store.runs, EncryptedRuns):
            count += await store.runs.reencrypt(record.run_id)
        for traces in (store.traces, store.node_logs):
            if isinstance(traces, EncryptedTraces):
                count += await traces.reencrypt(record)
    return count
