"""What the saver asks of a store beside LangGraph's saver: blobs, and refusal of writes that are not due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

__all__ = ["EPOCH", "FENCED", "NO_LEASE", "RENEWED", "Blobs", "FenceToken", "Writing"]

FENCED = "another runner holds this session"
"""Text of the error by which a store refuses the write of a runner that has lost its lease."""
RENEWED = "this session has been deleted meanwhile"
"""Text of the error by which a store refuses a write that may count on blobs which are gone."""
EPOCH = "epoch"
"""Key under which the blobs of a thread have their epoch, beside the hashes."""
NO_LEASE = -1
"""In place of the token of a writer that has no lease. It may write to threads that nobody has leased."""


class FenceToken(Struct, frozen=True):
    """By what right, and on which grounds, a thread is written to."""

    thread: str
    token: int
    """Of the writer's lease, or NO_LEASE."""
    epoch: str
    """The thread's epoch as the writer knows it: of then are the blobs that it counts on."""


class Blobs(Protocol):
    """Texts by hash, for each thread its own."""

    async def epoch(self, thread: str) -> str:
        """Give the mark that a thread's blobs bear from the first of them until they are deleted."""
        ...

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store texts; those that are there stay."""
        ...

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        ...

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        ...


Writing = Callable[[FenceToken | None], AbstractAsyncContextManager[None]]
"""Goes round what belongs together: all of it is stored, or none.

By a claim that does not hold, an error that has FENCED or RENEWED in its text refuses it. Deleting needs no claim.
"""
