"""Optional checkpointer operations that LangGraph's server uses: copying threads and deleting parts of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import INTERRUPT

from ragflow_lg.base.langgraph_internals import NULL_TASK_ID


class CheckpointKey(NamedTuple):
    """The identity of a checkpoint."""

    thread: str
    namespace: str
    checkpoint: str


class InnerSaver(Protocol):
    """The methods that a backend's LangGraph saver provides in addition to LangGraph's own."""

    def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, in pages, without reading their values.

        Only checkpoints of the given thread and namespace are listed, None stands for all. ``before`` is a checkpoint
        id: only older ones are listed.
        """
        ...

    async def keys_of_runs(self, runs: Collection[str]) -> Sequence[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored, on any thread."""
        ...

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes. The newest remaining checkpoint becomes the newest."""
        ...

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the space that checkpoints and their pending writes take."""
        ...

    async def release_space(self) -> None:
        """Return the space of deleted data to the operating system, if that does not happen by itself."""
        ...


class PruningSaver(BaseCheckpointSaver[Any]):
    """The part of `CanvasSaver` that copies and prunes. All methods raise CheckpointError if the store fails."""

    async def keys_of_runs(self, runs: Collection[str]) -> Sequence[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        raise NotImplementedError

    async def erase(self, keys: Sequence[CheckpointKey], token: int | None = None) -> None:
        """Delete checkpoints."""
        raise NotImplementedError

    def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, without reading their values."""
        raise NotImplementedError

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Delete everything that the runs have stored, and the whole thread if it would otherwise be empty.

        The checkpoint before them waits for its answers again. If a run has stored no checkpoint, its writes stay with
        the other run's checkpoint.
        """
        runs = {str(run) for run in run_ids}
        if not runs:
            return
        keys = await self.keys_of_runs(runs)
        for parent in {parent async for parent in self._parents(keys)} - set(keys):
            await self._reopen(parent)
        await self.erase(keys)
        for thread in {key.thread for key in keys}:
            if not [key async for key in self.list_keys(thread, limit=1)]:
                await self.adelete_thread(thread)

    async def _parents(self, keys: Sequence[CheckpointKey]) -> AsyncIterator[CheckpointKey]:
        for key in keys:
            stored = await self.aget_tuple(key_config(key))
            if stored is not None and stored.parent_config:
                yield checkpoint_key(stored.parent_config)

    async def _reopen(self, key: CheckpointKey) -> None:
        """Remove the pending writes made since the checkpoint's forms were shown, or all of them if it has no forms."""
        stored = await self.aget_tuple(key_config(key))
        if stored is None:
            return
        writes = stored.pending_writes or []
        waiting = {task for task, channel, _ in writes if channel == INTERRUPT}
        finished = {task for task, _, _ in writes if waiting and task not in waiting and task != NULL_TASK_ID}
        remaining = [write for write in writes if write[0] in finished or write[1] == INTERRUPT]
        if len(remaining) < len(writes):
            await self.erase([key])
            await self._copy(stored._replace(pending_writes=remaining), key.thread)

    async def _copy(self, stored: CheckpointTuple, thread: str) -> None:
        parent = checkpoint_key(stored.parent_config).checkpoint if stored.parent_config else ""
        place = {"thread_id": thread, "checkpoint_ns": checkpoint_key(stored.config).namespace}
        config: Any = {"configurable": place | ({"checkpoint_id": parent} if parent else {})}
        metadata: Any = {**stored.metadata, **({"thread_id": thread} if "thread_id" in stored.metadata else {})}
        target = await self.aput(config, stored.checkpoint, metadata, stored.checkpoint["channel_versions"])
        for task, writes in writes_of_tasks(stored).items():
            await self.aput_writes(target, writes, task)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all but the newest checkpoint of each namespace. Any other strategy deletes everything."""
        for thread in map(str, thread_ids):
            if strategy != "keep_latest":
                await self.adelete_thread(thread)
                continue
            keys = [key async for key in self.list_keys(thread)]
            newest = {key.namespace: key for key in reversed(keys)}  # the last one wins
            await self.erase([key for key in keys if newest[key.namespace] != key])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread's checkpoints with their pending writes. Steps within nodes are not copied."""
        keys = [key async for key in self.list_keys(str(source_thread_id))]
        for key in sorted(keys):
            if (stored := await self.aget_tuple(key_config(key))) is not None:
                await self._copy(stored, str(target_thread_id))


def writes_of_tasks(stored: CheckpointTuple) -> dict[str, list[tuple[str, Any]]]:
    """Return a checkpoint's pending writes by task. Redis mixes those of several tasks."""
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in stored.pending_writes or ():
        tasks.setdefault(task, []).append((channel, value))
    return tasks


def thread_of(config: RunnableConfig) -> str:
    """Return the thread that a config specifies."""
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always sets it


def checkpoint_key(config: RunnableConfig) -> CheckpointKey:
    """Return the checkpoint key that a config specifies."""
    place = config.get("configurable", {})
    parts = str(place.get("thread_id", "")), place.get("checkpoint_ns", ""), place.get("checkpoint_id", "")
    # A step needs five keys, and the class's own method takes longer.
    return tuple.__new__(CheckpointKey, parts)  # pyright: ignore[reportUnknownMemberType] - of any tuple


def key_config(key: CheckpointKey) -> RunnableConfig:
    """Return the config that specifies a checkpoint."""
    thread, namespace, checkpoint = key
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}
