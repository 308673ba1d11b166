"""What LangGraph's server asks of a saver beside keeping checkpoints: to copy threads, and to delete parts of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

__all__ = ["Erasing", "Place", "PruningSaver", "place_of"]

_INTERRUPT = "__interrupt__"
_NO_TASK = "00000000-0000-0000-0000-000000000000"
"""LangGraph's id for what a caller writes, as an answer to whichever task asks."""


class Place(NamedTuple):
    """Where a checkpoint is."""

    thread: str
    namespace: str
    checkpoint: str


class Erasing(Protocol):
    """A saver that can delete single checkpoints."""

    async def places_of_runs(self, runs: Collection[str]) -> Sequence[Place]:
        """Give the checkpoints that runs have stored, on whatever thread."""
        ...

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints and what was written to them. The newest of those left is the newest then."""
        ...


class PruningSaver(BaseCheckpointSaver[Any]):
    """The part of a checkpointer that copies and prunes, over one that can erase."""

    async def places_of_runs(self, runs: Collection[str]) -> Sequence[Place]:
        """Give the checkpoints that runs have stored."""
        raise NotImplementedError

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints."""
        raise NotImplementedError

    def places(self, config: RunnableConfig) -> AsyncIterator[CheckpointTuple]:
        """Go through checkpoints, newest first, for their config only."""
        raise NotImplementedError

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Delete what runs have stored; where nothing else is left, all of the thread.

        The checkpoint before them waits again. A run that has stored no checkpoint of its own leaves what it has
        written to another's.

        Raises:
            CheckpointError: if the store fails.
        """
        runs = {str(run) for run in run_ids}
        if not runs:
            return
        places = await self.places_of_runs(runs)
        for before in {parent async for parent in self._before(places)} - set(places):
            await self._wait_again(before)
        await self.erase(places)
        for thread in {place.thread for place in places}:
            if not [found async for found in self.places(_whole(thread))]:
                await self.adelete_thread(thread)

    async def _before(self, places: Sequence[Place]) -> AsyncIterator[Place]:
        for place in places:
            found = await self.aget_tuple(_at(place))
            if found is not None and found.parent_config:
                yield place_of(found.parent_config)

    async def _wait_again(self, place: Place) -> None:
        """Take back what was written to a checkpoint since its forms asked; without forms, all."""
        found = await self.aget_tuple(_at(place))
        if found is None:
            return
        written = found.pending_writes or []
        asking = {task for task, channel, _ in written if channel == _INTERRUPT}
        done = {task for task, _, _ in written if asking and task not in asking and task != _NO_TASK}
        kept = [write for write in written if write[0] in done or write[1] == _INTERRUPT]
        if len(kept) < len(written):
            await self.erase([place])
            await self._put_again(found._replace(pending_writes=kept), place.thread)

    async def _put_again(self, found: CheckpointTuple, thread: str) -> None:
        parent = place_of(found.parent_config).checkpoint if found.parent_config else ""
        place = {"thread_id": thread, "checkpoint_ns": place_of(found.config).namespace}
        config: Any = {"configurable": place | ({"checkpoint_id": parent} if parent else {})}
        metadata: Any = {**found.metadata, **({"thread_id": thread} if "thread_id" in found.metadata else {})}
        stored = await self.aput(config, found.checkpoint, metadata, found.checkpoint["channel_versions"])
        for task, writes in groupby(found.pending_writes or (), key=lambda write: write[0]):
            await self.aput_writes(stored, [(channel, value) for _, channel, value in writes], task)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads but the newest of each namespace; by another strategy than that, all.

        Raises:
            CheckpointError: if the store fails.
        """
        for thread in map(str, thread_ids):
            if strategy != "keep_latest":
                await self.adelete_thread(thread)
                continue
            places = sorted([place_of(found.config) async for found in self.places(_whole(thread))])
            kept = {place.namespace: place for place in places}  # the last is the newest
            await self.erase([place for place in places if kept[place.namespace] != place])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, and what was written to them. Steps within nodes stay behind.

        Raises:
            CheckpointError: if the store fails.
        """
        found = [each async for each in self.alist(_whole(str(source_thread_id)))]
        for each in sorted(found, key=lambda each: place_of(each.config)):
            await self._put_again(each, str(target_thread_id))


def place_of(config: RunnableConfig) -> Place:
    """Give the place that a config names."""
    place = config.get("configurable", {})
    return Place(str(place.get("thread_id", "")), place.get("checkpoint_ns", ""), place.get("checkpoint_id", ""))


def _at(place: Place) -> RunnableConfig:
    thread, namespace, checkpoint = place
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def _whole(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}
