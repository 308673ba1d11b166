"""Sessions that end with the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.checkpoints.pruning import Place, place_of
from ragflow_lg.checkpoints.saver import CanvasSaver
from ragflow_lg.checkpoints.serializer import plain_serializer

__all__ = ["ListingSaver", "MemoryBlobs", "memory_saver"]


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


class ListingSaver(InMemorySaver):
    """LangGraph's saver, which by itself lists namespace by namespace, and not while something is stored."""

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Go through the checkpoints, newest first. The other arguments are left to the caller."""
        for found in sorted(self.list(config), key=lambda held: held.checkpoint["id"], reverse=True):
            yield found

    async def places_of_runs(self, runs: Collection[str]) -> list[Place]:
        """Give the checkpoints that runs have stored."""
        return [place_of(found.config) for found in self.list(None) if found.metadata.get("run_id") in runs]

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints and what was written to them."""
        for thread, namespace, checkpoint in places:
            self.storage[thread][namespace].pop(checkpoint, None)
            self.writes.pop((thread, namespace, checkpoint), None)


def memory_saver() -> CanvasSaver:
    """Make a saver in memory."""
    return CanvasSaver(ListingSaver(serde=plain_serializer()), MemoryBlobs(), lists_truly=False)
