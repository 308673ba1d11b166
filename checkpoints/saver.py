"""The checkpointer for all backends, which wraps LangGraph's own saver.

LangGraph's savers turn maps that look like serialized objects into objects, or change values (Redis). This wrapper
passes them only text, so that data stays data on every backend, and stores large parts only once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.long_list import LongList
from ragflow_lg.checkpoints.channel_values import LONG_LISTS, to_object, to_plain
from ragflow_lg.checkpoints.codec import Codec, blob_digest, find_digests
from ragflow_lg.checkpoints.failures import store_failure
from ragflow_lg.checkpoints.langgraph_internals import INTERRUPT_CHANNEL, advance_ids_past
from ragflow_lg.checkpoints.preconditions import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    NO_LEASE,
    Blobs,
    OpenTransaction,
    Precondition,
    describe_violation,
)
from ragflow_lg.checkpoints.pruning import CheckpointKey, InnerSaver, PruningSaver, checkpoint_key, key_config
from ragflow_lg.checkpoints.stored_lists import FindBlobs, UnreadBlockError, block_digests, read_blocks
from ragflow_lg.services.sessions import LEASE_TOKEN, RECENT_ENTRIES, RecentEntries

_PLAIN_METADATA = ("source", "step", "parents", "run_id")
"""Metadata that the inner saver filters by and must therefore be able to read."""
_CHECKSUM = "__checksum"
_TRIES = 3
_MAX_CURRENT = 4096
_PARTS = 500
"""Number of parts that are read at once while a session is pruned."""
_EVERYTHING: RecentEntries = {}

_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""Exceptions that an inner saver raises if its stored data was modified by something else."""

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R")


def plain_serializer() -> JsonPlusSerializer:
    """Create a serializer for inner savers that never deserializes into objects."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def _no_transaction(precondition: Precondition | None) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class _Blobs:
    """The blobs of one write."""

    def __init__(self) -> None:
        self.new: dict[str, bytes] = {}
        self._texts: list[bytes] = []

    def add_text(self, text: str) -> str:
        """Note a text that may refer to blobs, and return it."""
        self._texts.append(text.encode())
        return text

    def known(self) -> set[str]:
        """Return the hashes of blobs that the write refers to but does not contain."""
        return {
            digest for text in (*self._texts, *self.new.values()) for digest in find_digests(text)
        } - self.new.keys()


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
        self._current: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The checkpoint that this process has last stored or read, by thread and namespace."""

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

        def pack(blobs: _Blobs) -> tuple[Any, Any]:
            values = {
                channel: None if value is None else self._encode(channel, value, thread, blobs)
                for channel, value in checkpoint["channel_values"].items()
            }
            own = {**more, _CHECKSUM: _checksum(checkpoint, plain)}
            packed = {**plain, "more": self._encode("", own, thread, blobs)}
            return {**checkpoint, "channel_values": values}, packed

        async def put(packed: tuple[Any, Any]) -> RunnableConfig:
            return await self.inner.aput(config, *packed, new_versions)

        stored = await self._write(config, pack, put)
        self._remember_checkpoint(stored)
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes.

        If the store has lost the checkpoint, only a pause fails: all other writes are part of the next checkpoint.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = _thread(config)

        def pack(blobs: _Blobs) -> list[tuple[str, str | None]]:
            return [
                (channel, None if value is None else self._encode(channel, value, thread, blobs))
                for channel, value in writes
            ]

        async def put(packed: list[tuple[str, str | None]]) -> None:
            await self.inner.aput_writes(config, packed, task_id, task_path)

        key = checkpoint_key(config)
        is_known = self._current.get(key[:2]) == key.checkpoint
        try:
            await self._write(config, pack, put, key if is_known else None)
        except CheckpointError as error:
            is_pause = any(channel == INTERRUPT_CHANNEL for channel, _ in writes)
            if is_pause or CHECKPOINT_MISSING not in str(error.__cause__):
                raise
            logger.warning("The session store has lost the latest steps of a run. Its next step is stored completely.")

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the given checkpoint, or the newest one, with its pending writes.

        Raises:
            CheckpointError: if the store fails or its data is damaged.
        """
        packed = await self._get_packed(config)
        if packed is None:
            return None
        unpacked = await self._unpack(packed, config["configurable"].get(RECENT_ENTRIES) or {})  # pyright: ignore[reportTypedDictNotRequiredAccess] - see `_thread`
        advance_ids_past(unpacked.checkpoint["id"])
        self._remember_checkpoint(unpacked.config)
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
            unpacked = await self._unpack(packed, wanted.get(RECENT_ENTRIES) or {})
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

    async def erase(self, keys: Sequence[CheckpointKey], token: int | None = None) -> None:
        """Delete checkpoints and their pending writes. Blobs are kept, since other checkpoints may share them.

        If a lease's ``token`` is given, the checkpoints belong to one thread, and the lease must be current.

        Raises:
            SessionBusyError: if the lease has been lost.
            CheckpointError: if the store fails.
        """
        if not keys:
            return
        with self._failing("deleted"):
            async with self._transaction(None if token is None else Precondition(keys[0].thread, token)):
                await self._lister.erase(keys)

    # Pruning

    async def source_of(self, key: CheckpointKey) -> str:
        """Return why a checkpoint was stored: ``input`` at the beginning of a turn."""
        packed = await self._get_packed(key_config(key))
        return str((packed.metadata or {}).get("source", "")) if packed is not None else ""

    async def part_names(self, thread: str) -> Sequence[str]:
        """Return the names of a thread's blobs and steps."""
        with self._failing("read"):
            return await self._blobs.names(thread)

    async def used_parts(self, thread: str, keys: Iterable[CheckpointKey]) -> set[str]:
        """Return the hashes of the blobs that checkpoints use."""
        digests: set[str] = set()
        for key in keys:
            packed = await self._get_packed(key_config(key))
            if packed is not None:
                digests.update(digest for text in _texts(packed) for digest in find_digests(text.encode()))
        return await self._with_inner_parts(thread, digests)

    async def step_parts(self, thread: str, names: Sequence[str]) -> set[str]:
        """Return those of the names that belong to steps, and the blobs that the steps use."""
        steps: dict[str, bytes] = {}
        for start in range(0, len(names), _PARTS):
            with self._failing("read"):
                found = await self._blobs.find(thread, names[start : start + _PARTS])
            steps.update({name: text for name, text in found.items() if blob_digest(text) != name})
        inner = {digest for text in steps.values() for digest in find_digests(text)}
        return steps.keys() | await self._with_inner_parts(thread, inner)

    async def _with_inner_parts(self, thread: str, digests: set[str]) -> set[str]:
        """Return the hashes together with those of all blobs inside these blobs."""
        known, unread = set(digests), sorted(digests)
        while unread:
            batch, unread = unread[:_PARTS], unread[_PARTS:]
            with self._failing("read"):
                blobs = await self._blobs.find(thread, batch)
            inner = {digest for text in blobs.values() for digest in find_digests(text)} - known
            known |= inner
            unread += inner
        return known

    async def stored_bytes(self, thread: str, keys: Sequence[CheckpointKey], parts: Sequence[str]) -> int:
        """Return the space that checkpoints and parts take in the store."""
        with self._failing("read"):
            return await self._lister.stored_bytes(keys) + await self._blobs.stored_bytes(thread, parts)

    async def erase_parts(self, thread: str, names: Sequence[str], token: int) -> None:
        """Delete parts that nothing uses.

        Raises:
            SessionBusyError: if the lease with this token has been lost.
            CheckpointError: if the store fails.
        """
        self._codec.forget(thread)
        with self._failing("deleted"):
            async with self._transaction(Precondition(thread, token)):
                await self._blobs.erase(thread, names)

    async def release_space(self) -> None:
        """Return the space of deleted data to the operating system."""
        with self._failing("deleted"):
            await self._lister.release_space()

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

        def pack(blobs: _Blobs) -> str:
            return self._encode("", [value], thread, blobs)

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
        pack: Callable[[_Blobs], _T],
        put: Callable[[_T], Awaitable[_R]],
        checkpoint: CheckpointKey | None = None,
    ) -> _R:
        """Store a value with its blobs. ``pack`` collects them: all of them if the store has lost some.

        ``checkpoint`` must be stored already.
        """
        thread = _thread(config)
        token = config["configurable"].get(LEASE_TOKEN, NO_LEASE)  # pyright: ignore[reportTypedDictNotRequiredAccess] - see `_thread`
        for _ in range(_TRIES):
            blobs = _Blobs()
            packed = await self._pack(pack, blobs)
            try:
                async with self._transaction(Precondition(thread, token, blobs.known(), checkpoint)):
                    if blobs.new:
                        await self._blobs.put(thread, blobs.new)
                    result = await put(packed)
            except self._errors as error:
                if BLOB_MISSING not in str(error):
                    raise self._failure("written", error) from error
                self._codec.forget(thread)
                continue
            self._codec.remember_blobs(thread, blobs.new)
            return result
        raise CheckpointError("The session cannot be written: another process keeps deleting it.")

    async def _pack(self, pack: Callable[[_Blobs], _T], blobs: _Blobs) -> _T:
        """Encode a value, and read the blocks of long lists that the thread does not have."""
        while True:
            try:
                return pack(blobs)
            except UnreadBlockError as error:  # a list of another thread, or of a thread that has been deleted
                await self._read_blocks(error.entries, len(error.entries))

    async def _find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Read blobs, and remember that they exist so that they are not written again."""
        try:
            blobs = await self._blobs.find(thread, digests)
        except self._errors as error:
            raise self._failure("read", error) from error
        for digest, text in blobs.items():
            if blob_digest(text) != digest:
                raise CheckpointError(f"A stored value is damaged: part {digest} has been changed.")
        self._codec.remember_blobs(thread, blobs)
        return blobs

    def _remember_checkpoint(self, config: RunnableConfig) -> None:
        thread, namespace, checkpoint = checkpoint_key(config)
        self._current[thread, namespace] = checkpoint
        self._current.move_to_end((thread, namespace))
        if len(self._current) > _MAX_CURRENT:
            self._current.popitem(last=False)

    def _forget(self, thread: str) -> None:
        self._codec.forget(thread)
        for key in [key for key in self._current if key[0] == thread]:
            del self._current[key]

    # Values

    def _encode(self, channel: str, value: Any, thread: str, blobs: _Blobs) -> str:
        long = LONG_LISTS.get(channel, ())
        return blobs.add_text(self._codec.encode(to_plain(channel, value), thread, blobs.new, long))

    async def _decode(self, channel: str, text: Any, thread: str, recent: RecentEntries = _EVERYTHING) -> Any:
        if not isinstance(text, str):
            return text
        unread = {name for name in LONG_LISTS.get(channel, ()) if (name or channel) in recent}
        value = await self._codec.decode(text, self._finder(thread), thread, unread)
        for name in unread:
            entries = value if not name else value.get(name)
            if isinstance(entries, LongList):
                await self._read_blocks(entries, recent[name or channel])
        return to_object(channel, value)

    async def _read_blocks(self, entries: LongList, count: int) -> None:
        """Read the last ``count`` entries of a list, and remember that its blocks are stored."""
        await read_blocks(entries, count, self._finder(entries.thread), self._codec.expand)
        self._codec.remember_stored(entries.thread, block_digests(entries.blocks))

    def _finder(self, thread: str) -> FindBlobs:
        async def find(digests: Sequence[str]) -> Mapping[str, bytes]:
            return await self._find(thread, digests)

        return find

    async def _unpack(self, packed: CheckpointTuple, recent: RecentEntries) -> CheckpointTuple:
        thread = _thread(packed.config)
        try:
            texts = packed.checkpoint["channel_values"]
            _check_fields(packed.checkpoint)
            values = {channel: await self._decode(channel, text, thread, recent) for channel, text in texts.items()}
            metadata: dict[str, Any] = dict(packed.metadata or {})
            more = await self._decode("", metadata.pop("more", None), thread)
            # Only updates of maps contain the whole of a list.
            in_maps = {name: 0 for name in recent if name not in LONG_LISTS}
            writes = [
                (task, channel, await self._decode(channel, text, thread, in_maps))
                for task, channel, text in packed.pending_writes or ()
            ]
            checkpoint: Any = {**packed.checkpoint, "channel_values": values}
            complete: Any = {key: metadata[key] for key in _PLAIN_METADATA if key in metadata}
            rest: dict[str, Any] = dict(more or {})
            if rest.pop(_CHECKSUM, own := _checksum(packed.checkpoint, complete)) != own:
                raise ValueError("its checksum is wrong")
            complete.update(rest)
        except _DAMAGE as error:
            raise _damage_error(error) from error
        return packed._replace(checkpoint=checkpoint, metadata=complete, pending_writes=writes)

    @contextmanager
    def _failing(self, participle: str) -> Generator[None]:
        """Raise CheckpointError if the store fails."""
        try:
            yield
        except self._errors as error:
            raise self._failure(participle, error) from error

    def _failure(self, participle: str, error: Exception) -> CheckpointError:
        return describe_violation(error) or store_failure(f"The session cannot be {participle}", error)


def _checksum(checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return a checksum of everything in a checkpoint that is not stored as a text with its own checksum."""
    versions = {name: str(version) for name, version in checkpoint["channel_versions"].items()}  # as in Redis
    seen = {
        node: {name: str(version) for name, version in of_node.items()}
        for node, of_node in checkpoint["versions_seen"].items()
    }
    fields = [
        checkpoint["v"],
        checkpoint["id"],
        versions,
        seen,
        checkpoint.get("updated_channels"),
        sorted(checkpoint["channel_values"]),
        metadata,
    ]
    return blob_digest(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))


def _check_fields(checkpoint: Mapping[str, Any]) -> None:
    """Raise a TypeError or LookupError if LangGraph could not read a checkpoint."""
    for name, kind in {"id": str, "channel_versions": dict, "versions_seen": dict}.items():
        if not isinstance(checkpoint[name], kind):
            raise TypeError(f"its {name} is not a {kind.__name__}")


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


def _texts(packed: CheckpointTuple) -> list[str]:
    """Return everything that the inner saver stores as text."""
    metadata: Mapping[str, Any] = packed.metadata or {}
    values = [*packed.checkpoint["channel_values"].values(), metadata.get("more")]
    values += [value for _, _, value in packed.pending_writes or ()]
    return [value for value in values if isinstance(value, str)]


def _has_metadata(entry: CheckpointTuple, conditions: Mapping[str, Any]) -> bool:
    metadata = cast("Mapping[str, Any]", entry.metadata or {})
    return all(metadata.get(key) == value for key, value in conditions.items())


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess] - LangGraph always sets it
