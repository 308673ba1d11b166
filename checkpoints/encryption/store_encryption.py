"""Encrypts everything in a store that users and models have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.checkpoints.encryption.blob_encryption import EncryptedBlobs
from ragflow_lg.checkpoints.encryption.record_encryption import EncryptedRuns, EncryptedTraces
from ragflow_lg.checkpoints.encryption.saver_encryption import EncryptedSaver
from ragflow_lg.checkpoints.key_ring import KeyRing
from ragflow_lg.checkpoints.saver import CanvasSaver

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store
    from ragflow_lg.services.encryption import EncryptionKey


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
        runs=EncryptedRuns(store.runs, ring),
        traces=EncryptedTraces(store.traces, ring, "trace"),
        node_logs=EncryptedTraces(store.node_logs, ring, "nodes"),
        keys=ring,
    )
