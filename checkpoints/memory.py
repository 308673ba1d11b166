"""Sessions that end with the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph.checkpoint.memory import InMemorySaver

from checkpoints.saver import CanvasSaver
from checkpoints.serializer import plain_serializer

__all__ = ["MemoryBlobs", "memory_saver"]


class MemoryBlobs:
    """Blobs in a dict."""

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, bytes]] = {}

    async def epoch(self, thread: str) -> str:
        """Nobody else deletes here."""
        return ""

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store texts."""
        self._threads.setdefault(thread, {}).update(blobs)

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        held = self._threads.get(thread, {})
        return {digest: held[digest] for digest in digests if digest in held}

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        self._threads.pop(thread, None)


def memory_saver() -> CanvasSaver:
    """Make a saver in memory."""
    return CanvasSaver(InMemorySaver(serde=plain_serializer()), MemoryBlobs())
