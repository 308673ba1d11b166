"""The checkpointer for all backends, which wraps LangGraph's own saver.

LangGraph's savers turn maps that look like serialized objects into objects, or change values (Redis). This wrapper
passes them only text, so that data stays data on every backend, and stores large parts only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.checkpoints.channel_values import to_object, to_plain
from ragflow_lg.checkpoints.codec import Codec
from ragflow_lg.checkpoints.failures import store_failure
from ragflow_lg.checkpoints.fence_token import (
    EPOCH,
    EPOCH_MISMATCH,
    LEASE_MISMATCH,
    NO_LEASE,
    Blobs,
    FenceToken,
    OpenTransaction,
)
from ragflow_lg.checkpoints.pruning import CheckpointKey, InnerSaver, PruningSaver, key_config
from ragflow_lg.checkpoints.saver_internals import advance_ids_past
from ragflow_lg.services.sessions import LEASE_TOKEN

_PLAIN_METADATA = ("source", "step", "parents", "run_id")
"""Metadata that the inner saver filters by and must therefore be able to read."""
_TRIES = 5
_MAX_EPOCHS = 4096

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""Exceptions that an inner saver raises if its stored data was modified by something else."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def plain_serializer() -> JsonPlusSerializer:
    """Create a serializer for inner savers that never deserializes into objects."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def _no_transaction(token: FenceToken | None) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class CanvasSaver(PruningSaver):
    """A LangGraph checkpointer that wraps another one. It is asynchronous only."""

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any],
        blobs: Blobs,
        *,
        errors: tuple[type[Exception], ...] = (),
        transaction: OpenTransaction = _no_transaction,
    ) -> None:
        """Wrap a saver that is also an `InnerSaver`.

        ``errors`` are the exceptions it raises when its store fails; they become CheckpointError. ``transaction``
        surrounds every write to a thread.
        """
        super().__init__()
        self.inner = inner
        self._lister = cast("InnerSaver", inner)
        self._blobs = blobs
        self._codec = Codec()
        self._errors = errors
        self._transaction = transaction
        self._epochs: dict[str, str] = {}
        self._epoch_requests: dict[str, asyncio.Future[str]] = {}

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next version of a channel, in the inner saver's format."""
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
        complete = {**({"run_id": run} if run else {}), **cast("Mapping[str, Any]", metadata)}
        plain = {key: complete[key] for key in _PLAIN_METADATA if key in complete}
        more = {key: value for key, value in complete.items() if key not in _PLAIN_METADATA}

        def pack(blobs: dict[str, bytes]) -> tuple[Any, Any]:
            values = {
                channel: None if value is None else self._encode(channel, value, thread, blobs)
                for channel, value in checkpoint["channel_values"].items()
            }
            packed = {**plain, "more": self._codec.encode(more, thread, blobs)} if more else plain
            return {**checkpoint, "channel_values": values}, packed

        async def put(packed: tuple[Any, Any]) -> RunnableConfig:
            return await self.inner.aput(config, *packed, new_versions)

        return await self._write(config, pack, put)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)

        def pack(blobs: dict[str, bytes]) -> list[tuple[str, str | None]]:
            return [
                (channel, None if value is None else self._encode(channel, value, thread, blobs))
                for channel, value in writes
            ]

        async def put(packed: list[tuple[str, str | None]]) -> None:
            await self.inner.aput_writes(config, packed, task_id, task_path)

        await self._write(config, pack, put)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the given checkpoint, or the newest one, with its pending writes.

        Raises:
            CheckpointError: if the store fails or its data is damaged.
        """
        packed = await self._get_packed(config)
        if packed is None:
            return None
        unpacked = await self._unpack(packed)
        advance_ids_past(unpacked.checkpoint["id"])
        return unpacked

    async def newest_id(self, config: RunnableConfig) -> str:
        """Return the id of a thread's newest checkpoint without reading its values, or ``""`` if it has no checkpoint.

        Raises:
            CheckpointError: if the store fails.
        """
        packed = await self._get_packed(config)
        return packed.checkpoint["id"] if packed is not None else ""

    async def _get_packed(self, config: RunnableConfig) -> CheckpointTuple | None:
        try:
            return await self.inner.aget_tuple(config)
        except self._errors as error:
            raise self._failure("read", error) from error
        except _DAMAGE as error:
            raise _damage_error(error) from error

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints that match all arguments, newest first. They are read one at a time."""
        wanted = (config or {}).get("configurable", {})
        place = wanted.get("thread_id"), wanted.get("checkpoint_ns")
        bound: str = (before or {}).get("configurable", {}).get("checkpoint_id") or ""
        conditions = filter or {}
        plain = {key: value for key, value in conditions.items() if key in _PLAIN_METADATA}
        count = 0
        async for key in self._matching_keys(*place, wanted.get("checkpoint_id"), bound):
            packed = await self._get_packed(key_config(key))
            if packed is None or not _has_metadata(packed, plain):
                continue
            unpacked = await self._unpack(packed)
            if not _has_metadata(unpacked, conditions):
                continue
            yield unpacked
            count += 1
            if limit is not None and count >= limit:
                return

    async def _matching_keys(
        self, thread: str | None, namespace: str | None, checkpoint: str | None, bound: str
    ) -> AsyncIterator[CheckpointKey]:
        if thread is not None and namespace is not None and checkpoint:
            if not bound or checkpoint < bound:
                yield CheckpointKey(str(thread), namespace, checkpoint)
            return
        async for key in self.list_keys(None if thread is None else str(thread), namespace, before=bound):
            if checkpoint in (None, "", key.checkpoint):
                yield key

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, without reading their values.

        Raises:
            CheckpointError: if the store fails or its data is damaged.
        """
        try:
            async for key in self._lister.list_keys(thread, namespace, before=before, limit=limit):
                yield key
        except self._errors as error:
            raise self._failure("read", error) from error
        except _DAMAGE as error:
            raise _damage_error(error) from error

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread. A concurrent writer stores all blobs that it needs again."""
        self._forget(thread_id)
        try:
            async with self._transaction(None):
                await self._blobs.delete(thread_id)  # first: a checkpoint without its blobs is unreadable
                await self.inner.adelete_thread(thread_id)
        except self._errors as error:
            raise self._failure("deleted", error) from error
        finally:
            self._forget(thread_id)

    async def keys_of_runs(self, runs: Collection[str]) -> Sequence[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored, on any thread.

        Raises:
            CheckpointError: if the store fails.
        """
        try:
            return await self._lister.keys_of_runs(runs)
        except self._errors as error:
            raise self._failure("read", error) from error

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes. Blobs are kept, since other checkpoints may share them.

        Raises:
            CheckpointError: if the store fails.
        """
        if not keys:
            return
        try:
            async with self._transaction(None):
                await self._lister.erase(keys)
        except self._errors as error:
            raise self._failure("deleted", error) from error

    def steps(self, config: RunnableConfig) -> SavedSteps:
        """Return the storage for steps within a thread's nodes."""
        return SavedSteps(self, config)

    async def put_step(self, config: RunnableConfig, key: str, value: Any) -> None:
        """Store the result of a step within a node. It is durable when this method returns.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)

        def pack(blobs: dict[str, bytes]) -> str:
            return self._codec.encode([value], thread, blobs)

        async def put(packed: str) -> None:
            await self._blobs.put(thread, {key: packed.encode()})

        await self._write(config, pack, put)

    async def find_step(self, config: RunnableConfig, key: str) -> tuple[bool, Any]:
        """Return whether a step has a stored result, and that result.

        Raises:
            CheckpointError: if the store fails.
        """
        thread = _thread(config)
        try:
            blobs = await self._blobs.find(thread, [key])
            if key not in blobs:
                return False, None
            (value,) = await self._decode("", blobs[key].decode(), thread)
        except self._errors as error:
            raise self._failure("read", error) from error
        except _DAMAGE as error:
            raise _damage_error(error) from error
        return True, value

    # Writing

    async def _write(
        self,
        config: RunnableConfig,
        pack: Callable[[dict[str, bytes]], _T],
        put: Callable[[_T], Awaitable[_R]],
    ) -> _R:
        """Store a value with its blobs. ``pack`` collects them, a second time if the thread has been deleted since."""
        thread = _thread(config)
        token = config["configurable"].get(LEASE_TOKEN, NO_LEASE)  # pyright: ignore[reportTypedDictNotRequiredAccess] - see `_thread`
        for _ in range(_TRIES):
            try:
                epoch = await self._epoch(thread)
                blobs: dict[str, bytes] = {}
                packed = pack(blobs)
                async with self._transaction(FenceToken(thread, token, epoch)):
                    if blobs:
                        await self._blobs.put(thread, blobs)
                    result = await put(packed)
            except self._errors as error:
                if EPOCH_MISMATCH not in str(error):
                    raise self._failure("written", error) from error
                self._forget(thread)
                continue
            if self._epochs.get(thread) == epoch:  # otherwise the thread was deleted during the write
                self._codec.remember_blobs(thread, blobs)
            return result
        raise CheckpointError("The session cannot be written: another process keeps deleting it.")

    async def _epoch(self, thread: str) -> str:
        epoch = self._epochs.get(thread)
        if epoch is not None:
            return epoch
        request = self._epoch_requests.get(thread)
        if request is None:  # LangGraph starts a turn with several concurrent writes
            request = self._epoch_requests[thread] = asyncio.ensure_future(self._blobs.epoch(thread))
            request.add_done_callback(lambda _: self._epoch_requests.pop(thread, None))
        epoch = self._epochs[thread] = await asyncio.shield(request)
        if len(self._epochs) > _MAX_EPOCHS:
            self._forget(next(iter(self._epochs)))
        return epoch

    async def _find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Read blobs, and remember that they exist so that they are not written again."""
        try:
            blobs = dict(await self._blobs.find(thread, [*digests, EPOCH]))
        except self._errors as error:
            raise self._failure("read", error) from error
        epoch = blobs.pop(EPOCH, b"").decode()
        if epoch and self._epochs.setdefault(thread, epoch) == epoch:
            self._codec.remember_blobs(thread, blobs)
        return blobs

    def _forget(self, thread: str) -> None:
        self._epochs.pop(thread, None)
        self._codec.forget(thread)

    # Values

    def _encode(self, channel: str, value: Any, thread: str, blobs: dict[str, bytes]) -> str:
        return self._codec.encode(to_plain(channel, value), thread, blobs)

    async def _decode(self, channel: str, text: Any, thread: str) -> Any:
        if not isinstance(text, str):
            return text

        async def find(digests: Sequence[str]) -> Mapping[str, bytes]:
            return await self._find(thread, digests)

        return to_object(channel, await self._codec.decode(text, find))

    async def _unpack(self, packed: CheckpointTuple) -> CheckpointTuple:
        thread = _thread(packed.config)
        try:
            texts = packed.checkpoint["channel_values"]
            values = {channel: await self._decode(channel, text, thread) for channel, text in texts.items()}
            metadata: dict[str, Any] = dict(packed.metadata or {})
            more = await self._decode("", metadata.pop("more", None), thread)
            writes = [
                (task, channel, await self._decode(channel, text, thread))
                for task, channel, text in packed.pending_writes or ()
            ]
            checkpoint: Any = {**packed.checkpoint, "channel_values": values}
            complete: Any = {key: metadata[key] for key in _PLAIN_METADATA if key in metadata}
            complete.update(more or {})
        except _DAMAGE as error:
            raise _damage_error(error) from error
        return packed._replace(checkpoint=checkpoint, metadata=complete, pending_writes=writes)

    def _failure(self, participle: str, error: Exception) -> CheckpointError:
        if LEASE_MISMATCH in str(error):
            return SessionBusyError("Another runner holds this session.")
        return store_failure(f"The session cannot be {participle}", error)


def _damage_error(error: Exception) -> CheckpointError:
    return CheckpointError(f"The session is damaged in its store ({type(error).__name__}: {error}).")


class SavedSteps:
    """The step results of one thread."""

    def __init__(self, saver: CanvasSaver, config: RunnableConfig) -> None:
        self._saver = saver
        self._config = config

    async def put(self, key: str, value: Any) -> None:
        """Store a result."""
        await self._saver.put_step(self._config, key, value)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Return whether there is a result, and that result."""
        return await self._saver.find_step(self._config, key)


def _has_metadata(entry: CheckpointTuple, conditions: Mapping[str, Any]) -> bool:
    metadata = cast("Mapping[str, Any]", entry.metadata or {})
    return all(metadata.get(key) == value for key, value in conditions.items())


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always sets it
