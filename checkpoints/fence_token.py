"""What `CanvasSaver` needs from a backend in addition to LangGraph's saver: blobs, and fenced transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

LEASE_MISMATCH = "another runner has this session"
"""Message of the error raised when a runner without the current lease tries to write."""
EPOCH_MISMATCH = "this session has been deleted in the meantime"
"""Message of the error raised for a write that may refer to deleted blobs."""
EPOCH = "epoch"
"""Key under which a thread's epoch is stored among its blobs; all other keys are hashes and steps."""
NO_LEASE = -1
"""Token of a writer without a lease, which may write only to threads that are not leased."""


class FenceToken(Struct, frozen=True):
    """The precondition for a write to a thread."""

    thread: str
    token: int
    """Token of the writer's lease, or NO_LEASE."""
    epoch: str
    """The thread's epoch as known to the writer: the blobs it refers to were stored in this epoch."""


class Blobs(Protocol):
    """Immutable texts, stored by hash and separately for each thread."""

    async def epoch(self, thread: str) -> str:
        """Return the thread's random epoch, created on first use and deleted together with the blobs."""
        ...

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs; existing ones are left unchanged."""
        ...

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        ...

    async def delete(self, thread: str) -> None:
        """Delete all of a thread's blobs."""
        ...


OpenTransaction = Callable[[FenceToken | None], AbstractAsyncContextManager[None]]
"""Opens a transaction: either everything written inside it is stored or nothing is.

If the fence token is outdated, the transaction fails with an error whose message contains LEASE_MISMATCH or
EPOCH_MISMATCH. For deletions, pass None.
"""
