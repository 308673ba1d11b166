"""What `CanvasSaver` needs from a backend in addition to LangGraph's saver: blobs, and fenced transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

LEASE_MISMATCH = "another runner has this session"
"""Text of the error that refuses a write of a runner without the current lease."""
EPOCH_MISMATCH = "this session has been deleted meanwhile"
"""Text of the error that refuses a write which may refer to deleted blobs."""
EPOCH = "epoch"
"""Key of a thread's epoch among its blobs; all other keys are hashes and steps."""
NO_LEASE = -1
"""The token of a writer without a lease. It may write to threads that nobody has leased."""


class FenceToken(Struct, frozen=True):
    """The precondition of a write to a thread."""

    thread: str
    token: int
    """Token of the writer's lease, or NO_LEASE."""
    epoch: str
    """The thread's epoch as known to the writer: the blobs that it refers to were stored in this epoch."""


class Blobs(Protocol):
    """Immutable texts by hash, separate for each thread."""

    async def epoch(self, thread: str) -> str:
        """Return the thread's random epoch, created on first use and deleted together with the blobs."""
        ...

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs; existing ones stay unchanged."""
        ...

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return the blobs that exist."""
        ...

    async def delete(self, thread: str) -> None:
        """Delete all blobs of a thread."""
        ...


OpenTransaction = Callable[[FenceToken | None], AbstractAsyncContextManager[None]]
"""Opens a transaction: everything written inside is stored, or nothing.

If the fence token is outdated, the transaction fails with an error whose text contains LEASE_MISMATCH or
EPOCH_MISMATCH. Deletions pass None.
"""
