"""What `CanvasSaver` needs from a backend: rows of checkpoints, writes and blobs, and guarded transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import NamedTuple, Protocol

from langchain_core.runnables import RunnableConfig
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError, SessionBusyError
from ragflow_lg.checkpoints.failures import store_failure

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
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of reading stored data that something else has changed."""


class CheckpointKey(NamedTuple):
    """The identity of a checkpoint."""

    thread: str
    namespace: str
    checkpoint: str


def thread_of(config: RunnableConfig) -> str:
    """Return the thread that a config specifies."""
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always sets it


def checkpoint_key(config: RunnableConfig) -> CheckpointKey:
    """Return the checkpoint key that a config specifies."""
    place = config.get("configurable", {})
    return CheckpointKey(
        str(place.get("thread_id", "")), place.get("checkpoint_ns", ""), place.get("checkpoint_id") or ""
    )


def key_config(key: CheckpointKey) -> RunnableConfig:
    """Return the config that specifies a checkpoint."""
    thread, namespace, checkpoint = key
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


class StoredCheckpoint(NamedTuple):
    """A checkpoint as its store has it."""

    key: CheckpointKey
    parent: str
    """The id of the checkpoint before it, or ``""``."""
    checkpoint: bytes
    metadata: bytes
    writes: Sequence[tuple[str, str, bytes]]
    """The task, channel and value of each pending write."""


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


class ThreadTables(Protocol):
    """The rows of all threads. What is written inside a transaction is stored at its end, all of it or nothing."""

    errors: tuple[type[Exception], ...]
    """The exceptions that all methods raise if the store fails."""

    def transaction(self, precondition: Precondition) -> AbstractAsyncContextManager[None]:
        """Open a transaction. If the precondition does not hold, it fails with one of the messages above."""
        ...

    async def put(self, key: CheckpointKey, parent: str, checkpoint: bytes, metadata: bytes) -> None:
        """Store a checkpoint."""
        ...

    async def put_writes(self, key: CheckpointKey, task: str, writes: Sequence[tuple[int, str, bytes]]) -> None:
        """Store the index, channel and value of a task's writes. Only those with a negative index replace others."""
        ...

    async def get(self, key: CheckpointKey) -> StoredCheckpoint | None:
        """Return a checkpoint, or the newest one of the namespace if the key has no id."""
        ...

    def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first.

        Only checkpoints of the given thread and namespace are listed, None stands for all. ``before`` is a checkpoint
        id: only older ones are listed.
        """
        ...

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints of one thread and their pending writes. The newest one that remains becomes the newest."""
        ...

    async def delete_thread(self, thread: str) -> None:
        """Delete everything that belongs to a thread."""
        ...

    async def put_blobs(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs, by name. Existing ones have the same content."""
        ...

    async def find_blobs(self, thread: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        ...

    async def blob_names(self, thread: str) -> Sequence[str]:
        """Return the names of all of a thread's blobs."""
        ...

    async def erase_blobs(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs."""
        ...


@contextmanager
def translating(participle: str, errors: tuple[type[Exception], ...]) -> Generator[None]:
    """Raise CheckpointError if the store fails, or SessionBusyError if the lease has been lost.

    ``participle`` says what cannot be done. If that is ``read``, other exceptions mean damaged data.
    """
    try:
        yield
    except errors as error:
        raise describe(participle, error) from error
    except DAMAGE as error:
        if participle != "read":
            raise
        text = f"The session is damaged in its store ({type(error).__name__}: {error})."
        raise DamagedSessionError(text) from error


def describe(participle: str, error: Exception) -> CheckpointError:
    """Return the error for the user."""
    for message, (kind, text) in _ERRORS.items():
        if message in str(error):
            return kind(text)
    return store_failure(f"The session cannot be {participle}", error)
