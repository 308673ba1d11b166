"""The checkpointer of every backend: LangGraph's own saver, given nothing but text.

A saver below revives objects from maps that look like one, or changes values on their way (Redis). Here it
only ever sees text, so data stays data on all of them, and large parts are stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.checkpoints.channel_values import as_object, as_plain
from ragflow_lg.checkpoints.checkpoint_ids import begin_after
from ragflow_lg.checkpoints.codec import Codec
from ragflow_lg.checkpoints.failures import store_failure
from ragflow_lg.checkpoints.fence_token import EPOCH, FENCED, NO_LEASE, RENEWED, Blobs, FenceToken, Writing
from ragflow_lg.checkpoints.pruning import Erasing, Place, PruningSaver
from ragflow_lg.services.sessions import LEASE_TOKEN

__all__ = ["CanvasSaver"]

_OWN_METADATA = ("source", "step", "parents", "run_id")
"""What the saver below gets as it is: it finds checkpoints by it."""
_PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
PAGE = 64
"""How many checkpoints are read at a time."""
_TRIES = 5
_REMEMBERED_EPOCHS = 4096

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""What a saver raises when what it has stored has been changed by somebody else."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def _writing(claim: FenceToken | None) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class CanvasSaver(PruningSaver):
    """A LangGraph checkpointer over another one. Asynchronous only."""

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any],
        blobs: Blobs,
        *,
        errors: tuple[type[Exception], ...] = (),
        lists_truly: bool = True,
        writing: Writing = _writing,
    ) -> None:
        """Wrap a saver.

        ``errors`` are what it raises when its store fails; they become CheckpointError. ``lists_truly`` says that its
        ``alist`` heeds ``before`` and ``limit``. ``writing`` is round every write to a thread.
        """
        super().__init__()
        self.inner = inner
        self._blobs = blobs
        self._codec = Codec()
        self._errors = errors
        self._lists_truly = lists_truly
        self._writing = writing
        self._epochs: dict[str, str] = {}
        self._asking: dict[str, asyncio.Future[str]] = {}

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
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)
        run = config.get("metadata", {}).get("run_id")
        given = {**({"run_id": run} if run else {}), **cast("Mapping[str, Any]", metadata)}
        own = {key: given[key] for key in _OWN_METADATA if key in given}
        more = {key: value for key, value in given.items() if key not in _OWN_METADATA}

        def packed(blobs: dict[str, bytes]) -> tuple[Any, Any]:
            values = {
                channel: None if value is None else self._encode(channel, value, thread, blobs)
                for channel, value in checkpoint["channel_values"].items()
            }
            kept = {**own, "more": self._codec.encode(more, thread, blobs)} if more else own
            return {**checkpoint, "channel_values": values}, kept

        async def put(stored: tuple[Any, Any]) -> RunnableConfig:
            return await self.inner.aput(config, *stored, new_versions)

        return await self._write(config, packed, put)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)

        def packed(blobs: dict[str, bytes]) -> list[tuple[str, str | None]]:
            return [
                (channel, None if value is None else self._encode(channel, value, thread, blobs))
                for channel, value in writes
            ]

        async def put(stored: list[tuple[str, str | None]]) -> None:
            await self.inner.aput_writes(config, stored, task_id, task_path)

        await self._write(config, packed, put)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Give a checkpoint with its pending writes: the one that is named, or the newest.

        Raises:
            CheckpointError: if the store fails or holds what cannot be read.
        """
        found = await self._packed(config)
        if found is None:
            return None
        opened = await self._opened(found)
        begin_after(opened.checkpoint["id"])
        return opened

    async def newest(self, config: RunnableConfig) -> str:
        """Give the id of a thread's newest checkpoint without reading what it holds, ``""`` if there is none.

        Raises:
            CheckpointError: if the store fails.
        """
        found = await self._packed(config)
        return found.checkpoint["id"] if found is not None else ""

    async def _packed(self, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            return await self.inner.aget_tuple(config)
        except self._errors as error:
            raise self._failed("read", error) from error
        except _DAMAGE as error:
            raise _damaged(error) from error

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

    async def places(self, config: RunnableConfig) -> AsyncIterator[CheckpointTuple]:
        """Go through checkpoints without reading what they hold; only their config is of use."""
        async for found in self._found(config, None):
            yield found

    async def _found(self, config: RunnableConfig | None, bound: str | None) -> AsyncIterator[CheckpointTuple]:
        """List what the saver below has: page by page, since it may hold a lock while it lists."""
        if not self._lists_truly or config is None:
            listed = self.inner.alist(config)
            async with aclosing(cast("AsyncGenerator[CheckpointTuple]", listed)):
                try:
                    async for found in listed:
                        yield found
                except self._errors as error:
                    raise self._failed("read", error) from error
                except _DAMAGE as error:
                    raise _damaged(error) from error
            return
        while True:
            before: Any = {"configurable": {"checkpoint_id": bound}} if bound else None
            try:
                page = [found async for found in self.inner.alist(config, before=before, limit=PAGE)]
            except self._errors as error:
                raise self._failed("read", error) from error
            except _DAMAGE as error:
                raise _damaged(error) from error
            for found in page:
                yield found
            if len(page) < PAGE:
                return
            bound = page[-1].config.get("configurable", {}).get("checkpoint_id")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread. Whoever still writes to it writes what it counts on anew."""
        self._forget(thread_id)
        try:
            async with self._writing(None):
                await self._blobs.delete(thread_id)  # first: a checkpoint without its blobs could not be read
                await self.inner.adelete_thread(thread_id)
        except self._errors as error:
            raise self._failed("deleted", error) from error
        finally:
            self._forget(thread_id)

    async def places_of_runs(self, runs: Collection[str]) -> Sequence[Place]:
        """Give the checkpoints that runs have stored, on whatever thread.

        Raises:
            CheckpointError: if the store fails.
        """
        try:
            return await cast("Erasing", self.inner).places_of_runs(runs)
        except self._errors as error:
            raise self._failed("read", error) from error

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints and what was written to them; blobs stay, for others may have them too.

        Raises:
            CheckpointError: if the store fails.
        """
        if not places:
            return
        try:
            async with self._writing(None):
                await cast("Erasing", self.inner).erase(places)
        except self._errors as error:
            raise self._failed("deleted", error) from error

    def steps(self, config: RunnableConfig) -> SavedSteps:
        """Give where the steps of a thread's nodes are kept."""
        return SavedSteps(self, config)

    async def put_step(self, config: RunnableConfig, key: str, value: Any) -> None:
        """Store the result of a step within a node; it is stored when this returns.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)

        def packed(blobs: dict[str, bytes]) -> str:
            return self._codec.encode([value], thread, blobs)

        async def put(stored: str) -> None:
            await self._blobs.put(thread, {key: stored.encode()})

        await self._write(config, packed, put)

    async def find_step(self, config: RunnableConfig, key: str) -> tuple[bool, Any]:
        """Give whether a step has a stored result, and the result.

        Raises:
            CheckpointError: if the store fails.
        """
        thread = _thread(config)
        try:
            found = await self._blobs.find(thread, [key])
            if key not in found:
                return False, None
            (value,) = await self._decode("", found[key].decode(), thread)
        except self._errors as error:
            raise self._failed("read", error) from error
        except _DAMAGE as error:
            raise _damaged(error) from error
        return True, value

    # Writing

    async def _write(
        self,
        config: RunnableConfig,
        packed: Callable[[dict[str, bytes]], _T],
        put: Callable[[_T], Awaitable[_R]],
    ) -> _R:
        """Store something with the blobs that it needs: ``packed`` gives both, again where the thread was deleted."""
        thread = _thread(config)
        token = config["configurable"].get(LEASE_TOKEN, NO_LEASE)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        for _ in range(_TRIES):
            try:
                epoch = await self._epoch(thread)
                blobs: dict[str, bytes] = {}
                stored = packed(blobs)
                async with self._writing(FenceToken(thread, token, epoch)):
                    if blobs:
                        await self._blobs.put(thread, blobs)
                    result = await put(stored)
            except self._errors as error:
                if RENEWED not in str(error):
                    raise self._failed("written", error) from error
                self._forget(thread)
                continue
            if self._epochs.get(thread) == epoch:  # else it was deleted while this was written
                self._codec.stored(thread, blobs)
            return result
        raise CheckpointError("The session cannot be written: it is deleted again and again.")

    async def _epoch(self, thread: str) -> str:
        epoch = self._epochs.get(thread)
        if epoch is not None:
            return epoch
        asking = self._asking.get(thread)
        if asking is None:  # LangGraph begins a turn with several writes at once
            asking = self._asking[thread] = asyncio.ensure_future(self._blobs.epoch(thread))
            asking.add_done_callback(lambda _: self._asking.pop(thread, None))
        epoch = self._epochs[thread] = await asyncio.shield(asking)
        if len(self._epochs) > _REMEMBERED_EPOCHS:
            self._forget(next(iter(self._epochs)))
        return epoch

    async def _find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Read blobs, and remember that they are there: they need not be written again."""
        try:
            found = dict(await self._blobs.find(thread, [*digests, EPOCH]))
        except self._errors as error:
            raise self._failed("read", error) from error
        epoch = found.pop(EPOCH, b"").decode()
        if epoch and self._epochs.setdefault(thread, epoch) == epoch:
            self._codec.stored(thread, found)
        return found

    def _forget(self, thread: str) -> None:
        self._epochs.pop(thread, None)
        self._codec.forget(thread)

    # Values

    def _encode(self, channel: str, value: Any, thread: str, blobs: dict[str, bytes]) -> str:
        return self._codec.encode(as_plain(channel, value), thread, blobs)

    async def _decode(self, channel: str, text: Any, thread: str) -> Any:
        if not isinstance(text, str):
            return text

        async def find(digests: Sequence[str]) -> Mapping[str, bytes]:
            return await self._find(thread, digests)

        return as_object(channel, await self._codec.decode(text, find))

    async def _opened(self, found: CheckpointTuple) -> CheckpointTuple:
        try:
            return await self._unpacked(found)
        except _DAMAGE as error:
            raise _damaged(error) from error

    async def _unpacked(self, found: CheckpointTuple) -> CheckpointTuple:
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
            return SessionBusyError("Another runner holds this session.")
        return store_failure(f"The session cannot be {what}", error)


def _damaged(error: Exception) -> CheckpointError:
    return CheckpointError(f"The session is damaged in its store ({type(error).__name__}: {error}).")


class SavedSteps:
    """Steps of one thread."""

    def __init__(self, saver: CanvasSaver, config: RunnableConfig) -> None:
        self._saver = saver
        self._config = config

    async def put(self, key: str, value: Any) -> None:
        """Store a result."""
        await self._saver.put_step(self._config, key, value)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Give whether there is a result, and the result."""
        return await self._saver.find_step(self._config, key)


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always gives it
