"""The checkpointer of every backend: LangGraph's own saver, given nothing but text.

A saver below revives objects from maps that look like one, or changes values on their way (Redis). Here it
only ever sees text, so data stays data on all of them, and large parts are stored once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.types import Interrupt, Send

from checkpoints.codec import Codec
from ragflow_lg.errors import CheckpointError, ConflictError

__all__ = ["FENCED", "Blobs", "CanvasSaver"]

_INTERRUPT = "__interrupt__"
_TASKS = "__pregel_tasks"
_ERROR = "__error__"
_OWN_METADATA = ("source", "step", "parents")
_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
FENCED = "another runner holds this session"
"""Text of the error by which a store refuses the write of a runner that has lost its lease."""

PAGE = 64
"""How many checkpoints are read at a time."""


class Blobs(Protocol):
    """Texts by hash, for each thread its own."""

    async def put(self, thread: str, blobs: Mapping[str, bytes], *, now: bool = False) -> None:
        """Store texts; those that are there stay. Without ``now`` the saver's next write may take them along."""
        ...

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        ...

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        ...


Fence = Callable[[str], AbstractContextManager[None]]
"""Goes round the writes to a thread; raises ConflictError where another runner holds it."""


def _no_fence(thread: str) -> AbstractContextManager[None]:
    return nullcontext()


async def _nothing() -> None:
    pass


class CanvasSaver(BaseCheckpointSaver[Any]):
    """A LangGraph checkpointer over another one. Asynchronous only."""

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any],
        blobs: Blobs,
        *,
        errors: tuple[type[Exception], ...] = (),
        lists_truly: bool = True,
        fence: Fence = _no_fence,
        give_up: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """Wrap a saver.

        ``errors`` are what it raises when its store fails; they become CheckpointError. ``lists_truly`` says that its
        ``alist`` heeds ``before`` and ``limit``. ``fence`` is round every write to a thread;
        ``give_up`` follows one that failed.
        """
        super().__init__()
        self.inner = inner
        self._blobs = blobs
        self._codec = Codec()
        self._errors = errors
        self._lists_truly = lists_truly
        self._fence = fence
        self._give_up = give_up

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Give the next version of a channel, as the saver below counts them."""
        return self.inner.get_next_version(current, channel)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Raises:
            ConflictError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)
        blobs: dict[str, bytes] = {}
        values = {
            channel: None if value is None else self._encode(channel, value, thread, blobs)
            for channel, value in checkpoint["channel_values"].items()
        }
        given = cast("Mapping[str, Any]", metadata)
        own = {key: given[key] for key in _OWN_METADATA if key in given}
        more = {key: value for key, value in given.items() if key not in _OWN_METADATA}
        packed: Any = {**own, "more": self._codec.encode(more, thread, blobs)} if more else own
        stored: Any = {**checkpoint, "channel_values": values}
        try:
            with self._fence(thread):
                await self._put_blobs(thread, blobs)
                return await self.inner.aput(config, stored, packed, new_versions)
        except self._errors as error:
            await self._give_up()
            raise self._failed("written", error) from error

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written.

        Raises:
            ConflictError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)
        blobs: dict[str, bytes] = {}
        packed = [
            (channel, None if value is None else self._encode(channel, value, thread, blobs))
            for channel, value in writes
        ]
        try:
            with self._fence(thread):
                await self._put_blobs(thread, blobs)
                await self.inner.aput_writes(config, packed, task_id, task_path)
        except self._errors as error:
            await self._give_up()
            raise self._failed("written", error) from error

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Give a checkpoint with its pending writes: the one that is named, or the newest.

        Raises:
            CheckpointError: if the store fails or holds what cannot be read.
        """
        try:
            found = await self.inner.aget_tuple(config)
            return await self._opened(found) if found else None
        except self._errors as error:
            raise self._failed("read", error) from error

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Go through checkpoints, newest first. Only what all of the arguments fit is given."""
        wanted = (config or {}).get("configurable", {})
        bound = (before or {}).get("configurable", {}).get("checkpoint_id")
        count = 0
        async for found in self._found(config, bound):
            place = found.config.get("configurable", {})
            if any(key in wanted and place.get(key, "") != wanted[key] for key in _PLACE):
                continue
            if bound is not None and place.get("checkpoint_id", "") >= bound:
                continue
            opened = await self._opened(found)
            metadata = cast("Mapping[str, Any]", opened.metadata)
            if all(metadata.get(key) == value for key, value in (filter or {}).items()):
                yield opened
                count += 1
                if limit is not None and count >= limit:
                    return

    async def _found(self, config: RunnableConfig | None, bound: str | None) -> AsyncIterator[CheckpointTuple]:
        """List what the saver below has, page by page: it may hold a lock while it lists."""
        paged = self._lists_truly and config is not None
        while True:
            before: Any = {"configurable": {"checkpoint_id": bound}} if paged and bound else None
            try:
                listed = self.inner.alist(config, before=before, limit=PAGE if paged else None)
                async with aclosing(cast("AsyncGenerator[CheckpointTuple]", listed)):
                    page = [found async for found in listed]
            except self._errors as error:
                raise self._failed("read", error) from error
            for found in page:
                yield found
            if not paged or len(page) < PAGE:
                return
            bound = page[-1].config.get("configurable", {}).get("checkpoint_id")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        try:
            await self.inner.adelete_thread(thread_id)
            await self._blobs.delete(thread_id)
        except self._errors as error:
            raise self._failed("deleted", error) from error
        self._codec.forget(thread_id)

    def steps(self, thread: str) -> SavedSteps:
        """Give where the steps of a thread's nodes are kept."""
        return SavedSteps(self, thread)

    async def put_step(self, thread: str, key: str, value: Any) -> None:
        """Store the result of a step within a node; it is stored when this returns.

        Raises:
            ConflictError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        blobs: dict[str, bytes] = {}
        text = self._codec.encode([value], thread, blobs)
        try:
            with self._fence(thread):
                await self._blobs.put(thread, {**blobs, key: text.encode()}, now=True)
        except self._errors as error:
            await self._give_up()
            raise self._failed("written", error) from error
        self._codec.stored(thread, blobs)

    async def find_step(self, thread: str, key: str) -> tuple[bool, Any]:
        """Give whether a step has a stored result, and the result.

        Raises:
            CheckpointError: if the store fails.
        """
        try:
            found = await self._blobs.find(thread, [key])
            if key not in found:
                return False, None
            (value,) = await self._decode("", found[key].decode(), thread)
        except self._errors as error:
            raise self._failed("read", error) from error
        return True, value

    # Values

    async def _put_blobs(self, thread: str, blobs: dict[str, bytes]) -> None:
        if blobs:
            await self._blobs.put(thread, blobs)
            self._codec.stored(thread, blobs)

    def _encode(self, channel: str, value: Any, thread: str, blobs: dict[str, bytes]) -> str:
        if channel == _INTERRUPT:
            value = _pack_interrupts(value)
        elif channel == _TASKS:
            sends = cast("list[Send]", value if isinstance(value, list) else [value])
            value = {"list": isinstance(value, list), "sends": [{"node": s.node, "arg": s.arg} for s in sends]}
        elif channel == _ERROR and isinstance(value, BaseException):
            value = f"{type(value).__name__}: {value}"
        return self._codec.encode(value, thread, blobs)

    async def _decode(self, channel: str, text: Any, thread: str) -> Any:
        if not isinstance(text, str):
            return text

        async def find(digests: Sequence[str]) -> Mapping[str, bytes]:
            return await self._blobs.find(thread, digests)

        value = await self._codec.decode(text, find)
        if channel == _INTERRUPT:
            pauses = value.get("pauses")
            return value["data"] if pauses is None else [Interrupt(value=p["value"], id=p["id"]) for p in pauses]
        if channel == _TASKS:
            sends = [Send(entry["node"], entry["arg"]) for entry in value["sends"]]
            return sends if value["list"] else sends[0]
        return value

    async def _opened(self, found: CheckpointTuple) -> CheckpointTuple:
        thread = _thread(found.config)
        packed = found.checkpoint["channel_values"]
        values = {channel: await self._decode(channel, text, thread) for channel, text in packed.items()}
        metadata: dict[str, Any] = dict(found.metadata or {})
        more = await self._decode("", metadata.pop("more", None), thread)
        writes = [
            (task, channel, await self._decode(channel, v, thread)) for task, channel, v in found.pending_writes or ()
        ]
        checkpoint: Any = {**found.checkpoint, "channel_values": values}
        own: Any = {key: metadata[key] for key in _OWN_METADATA if key in metadata}
        return found._replace(checkpoint=checkpoint, metadata={**own, **(more or {})}, pending_writes=writes)

    def _failed(self, what: str, error: Exception) -> CheckpointError:
        if FENCED in str(error):
            return ConflictError("Another runner holds this session.")
        return CheckpointError(f"The session cannot be {what}: {error}")


class SavedSteps:
    """Steps of one thread."""

    def __init__(self, saver: CanvasSaver, thread: str) -> None:
        self._saver = saver
        self._thread = thread

    async def put(self, key: str, value: Any) -> None:
        """Store a result."""
        await self._saver.put_step(self._thread, key, value)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Give whether there is a result, and the result."""
        return await self._saver.find_step(self._thread, key)


def _pack_interrupts(value: Any) -> dict[str, Any]:
    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(entry, Interrupt) for entry in entries):
        return {"pauses": [{"value": pause.value, "id": pause.id} for pause in entries]}
    return {"data": value}


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always gives it
