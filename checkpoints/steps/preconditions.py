"""What `CanvasSaver` needs from a backend in addition to LangGraph's saver: blobs, and guarded transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError, SessionBusyError
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey

LEASE_TAKEN = "another runner has this session"
"""Message of the error raised for a write while another runner has the lease."""
LEASE_MISSING = "the lease of this run is gone"
"""Message of the error raised for a write of a run whose lease the store does not have."""
BLOB_MISSING = "a blob of this write is gone"
"""Message of the error raised for a write that refers to a blob that the store does not have."""
CHECKPOINT_MISSING = "the checkpoint of this write is gone"
"""Message of the error raised for the results of a task whose checkpoint the store does not have."""
PART_MISSING = "a part of this session is gone"
"""Message of the error raised for reading a checkpoint of which the store has lost a part."""
NO_LEASE = -1
"""Token of a writer without a lease, which may write only to threads that are not leased."""


_CONTINUE = "Continue the session: it resumes at the last stored step."
_ERRORS: dict[str, tuple[type[CheckpointError], str]] = {
    LEASE_TAKEN: (SessionBusyError, "Another runner holds this session."),
    LEASE_MISSING: (
        SessionBusyError,
        "This run no longer holds its session: its lease has expired, or the session store has lost it. " + _CONTINUE,
    ),
    CHECKPOINT_MISSING: (
        CheckpointError,
        "The session store has lost the latest steps of this session, or another process has deleted it. " + _CONTINUE,
    ),
    PART_MISSING: (
        DamagedSessionError,
        "The session store has lost a part of this session, so it cannot be read. Delete the session, and check the"
        " store's memory limit and eviction policy: ragflow-lg doctor.",
    ),
}


def describe_violation(error: Exception) -> CheckpointError | None:
    """Return the error for the user if a store's error contains one of the messages above."""
    for message, (kind, text) in _ERRORS.items():
        if message in str(error):
            return kind(text)
    return None


class Precondition(Struct, frozen=True):
    """What must be stored for a write to take place.

    A store can lose data that it has acknowledged: after a failover or a restart, or because another process has
    deleted the thread. The store therefore checks what the writer believes to be stored, as part of each write.
    """

    thread: str
    token: int
    """Token of the writer's lease, or NO_LEASE."""
    blobs: Collection[str] = ()
    """Hashes of the blobs that the write refers to but does not contain."""
    checkpoint: CheckpointKey | None = None
    """The checkpoint to which the write belongs, if the writer has stored or read it."""


class Blobs(Protocol):
    """Immutable texts, stored by hash and separately for each thread. They are deleted together with the thread.

    The results of steps are stored in the same way, but under other names.
    """

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs; existing ones are left unchanged."""
        ...

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        ...

    async def names(self, thread: str) -> Sequence[str]:
        """Return the names of all of a thread's blobs."""
        ...

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the space that blobs take."""
        ...

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs in the open transaction."""
        ...


OpenTransaction = Callable[[Precondition | None], AbstractAsyncContextManager[None]]
"""Opens a transaction: either everything written inside it is stored or nothing is.

If the precondition does not hold, the transaction fails with an error whose message contains one of the messages
above. For deletions without a lease, pass None.
"""
