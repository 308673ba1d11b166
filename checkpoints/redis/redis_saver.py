"""Checkpoints in Redis (with JSON and search): LangGraph's saver, whose writes run in a script of `redis_sessions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.redis.key_registry import AsyncCheckpointKeyRegistry
from langgraph.checkpoint.redis.util import (
    from_storage_safe_id,
    from_storage_safe_str,
    to_storage_safe_id,
    to_storage_safe_str,
)
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from redisvl.exceptions import RedisSearchError, RedisVLError
from redisvl.query import FilterQuery
from redisvl.query.filter import FilterExpression, Tag

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.base.langgraph_internals import redis_key_of, redis_pointer_of, redis_write_key_of
from ragflow_lg.base.packed_bytes import LARGE_BYTES, is_packed, pack, unpack
from ragflow_lg.checkpoints.redis.redis_client import CollectingRedis, Command, collect, collecting_writes
from ragflow_lg.checkpoints.redis.redis_documents import dump_checkpoint, dump_write, read_checkpoint, read_tuple
from ragflow_lg.checkpoints.redis.redis_sessions import CHECKPOINTS, RedisSessions
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.preconditions import PART_MISSING, Precondition
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, key_config
from ragflow_lg.checkpoints.values.decoding import MAX_EXPANDED_BYTES

_FIELDS = ("thread_id", "checkpoint_ns", "checkpoint_id")
WRITES = "checkpoint_write"
FIRST_PAGE, PAGE = 8, 256
"""Number of keys on the first page of a listing, and at most. Most callers need only the newest keys, and the client
parses a response in Python: a thousand keys would keep the event loop from others for a tenth of a second."""
MAX_FIELDS = 500
"""Maximum number of hash fields per command: a server-side script accepts at most 8,000 values at once."""


class RedisBlobs:
    """Blobs stored in one hash per thread, which expires together with the thread's checkpoints."""

    def __init__(self, client: Redis, sessions: RedisSessions) -> None:
        self._client = cast("Any", client)
        self._sessions = sessions

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs in the open transaction."""
        texts = list(blobs.items())
        for start in range(0, len(texts), MAX_FIELDS):
            fields = {name: _pack(text) for name, text in texts[start : start + MAX_FIELDS]}
            await self._client.hset(self._sessions.blobs_key(thread), mapping=fields)

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        texts: list[bytes | None] = await self._client.hmget(self._sessions.blobs_key(thread), list(digests))
        found = {digest: text for digest, text in zip(digests, texts, strict=True) if text is not None}
        for digest, text in found.items():
            if is_packed(text):
                found[digest] = _unpack(text, digest)
        return found

    async def names(self, thread: str) -> list[str]:
        """Return the names of all of a thread's blobs."""
        return [name.decode() for name in await self._client.hkeys(self._sessions.blobs_key(thread))]

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the size of blobs."""
        size, key = 0, self._sessions.blobs_key(thread)
        for start in range(0, len(names), PAGE):
            async with self._client.pipeline(transaction=False) as pipeline:
                for name in names[start : start + PAGE]:
                    pipeline.hstrlen(key, name)
                size += sum(await pipeline.execute())
        return size

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs in the open transaction."""
        await self._client.hdel(self._sessions.blobs_key(thread), *names)


def _pack(text: bytes) -> bytes:
    return text if len(text) < LARGE_BYTES else pack(text)


def _unpack(text: bytes, digest: str) -> bytes:
    try:
        return unpack(text, MAX_EXPANDED_BYTES)
    except ValueError as error:
        raise DamagedSessionError(f"A stored value is damaged: part {digest}: {error}.") from None


class _PrefixedRegistry(AsyncCheckpointKeyRegistry):
    """LangGraph's registry of a checkpoint's writes, whose keys have the prefix of the other keys."""

    def __init__(self, client: Redis, prefix: str) -> None:
        super().__init__(client)
        self._prefix = prefix

    def make_write_keys_zset_key(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] - the saver calls it by the registry
        """Return the key of the registry of a checkpoint."""
        return self._prefix + AsyncCheckpointKeyRegistry.make_write_keys_zset_key(
            thread_id, checkpoint_ns, checkpoint_id
        )


class RedisSaver(AsyncRedisSaver):
    """LangGraph's saver, without its limit of 10,000 checkpoints. `RedisSessions` sets the keys' time to live."""

    def __init__(self, client: Redis, sessions: RedisSessions, prefix: str, *, has_one_slot: bool = False) -> None:
        """Initialize. With ``has_one_slot``, all keys have the prefix; otherwise, LangGraph's registries have none."""
        super().__init__(
            redis_client=client, checkpoint_prefix=f"{prefix}{CHECKPOINTS}", checkpoint_write_prefix=f"{prefix}{WRITES}"
        )
        self.serde = PlainSerializer(is_json=True)
        self._client = cast("Any", client)
        self._sessions = sessions
        self._registry = _PrefixedRegistry(client, prefix) if has_one_slot else AsyncCheckpointKeyRegistry(client)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        stream_mode: str = "values",
    ) -> RunnableConfig:
        """Store a checkpoint in the open transaction, as LangGraph's saver does."""
        thread, namespace, parent = checkpoint_key(config)
        key = CheckpointKey(thread, namespace, checkpoint["id"])
        document = dump_checkpoint(key, parent, checkpoint, metadata)
        place, pointer = self.key_of(key), redis_pointer_of(self, thread, namespace)
        await self._put([("JSON.SET", place, "$", document), ("SET", pointer, place)])
        return key_config(key)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes in the open transaction, as LangGraph's saver does."""
        if not writes:
            return
        key, commands, entries = checkpoint_key(config), list[Command](), list[Any]()
        for number, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, number)
            place = redis_write_key_of(self, key, task_id, index)
            commands.append(("JSON.SET", place, "$", dump_write(key, (task_id, task_path), index, channel, value)))
            entries += (number, place)
        await self._put([*commands, ("ZADD", self._registry.make_write_keys_zset_key(*key), *entries)])

    async def _put(self, commands: Sequence[Command]) -> None:
        """Execute commands in the open transaction or, without one, each by itself."""
        if not collect(commands):
            for command in commands:
                await self._client.execute_command(*command)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes.

        Raises:
            ResponseError: if the server has lost a part of it.
            ValueError: if a part of it is damaged.
        """
        key = checkpoint_key(config)
        checkpoint = key.checkpoint
        for read in self._sessions.reads.take(config):
            stored = read
            break
        else:
            stored = await self._sessions.read(*self._read_arguments(key))
        if stored is None:
            raise ResponseError(PART_MISSING)
        if not stored:
            return None
        document, *writes = map(orjson.loads, stored)
        document = read_checkpoint(document)
        if document.key() != key._replace(checkpoint=checkpoint or document.key().checkpoint):
            raise ValueError("it belongs to another session")
        return read_tuple(document, writes)

    def read_command(self, thread: str) -> Command:
        """Return the command that reads a thread's newest checkpoint."""
        return self._sessions.read_command(*self._read_arguments(CheckpointKey(thread, "", "")))

    def _read_arguments(self, key: CheckpointKey) -> tuple[str, str, str, str]:
        thread, namespace, checkpoint = key
        writes_prefix = self._registry.make_write_keys_zset_key(thread, namespace, "*").removesuffix("*")
        place = self.key_of(key) if checkpoint else ""
        return thread, redis_pointer_of(self, thread, namespace), place, writes_prefix

    def key_of(self, key: CheckpointKey) -> str:
        """Return the Redis key of a checkpoint."""
        return redis_key_of(self, *key)

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first. Only their indexed fields are read.

        Those of a thread are in a sorted set: the search would sort all of them for each page.
        """
        condition: Any = FilterExpression("*")
        if thread is not None:
            first = await self._sessions.list_checkpoints(thread, before, FIRST_PAGE)
            if first is not None:
                async for key in self._keys_in_order(thread, namespace, first, limit):
                    yield key
                return
            condition = condition & _is("thread_id", to_storage_safe_id(thread))
        if namespace is not None:
            condition = condition & _is("checkpoint_ns", to_storage_safe_str(namespace))
        count = 0
        async for key in self._keys_by(condition, before, limit):
            if count == limit:
                return
            yield key
            count += 1

    async def _keys_in_order(
        self, thread: str, namespace: str | None, page: Sequence[bytes], limit: int | None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys in the entries of the sorted set, beginning with those of its first page."""
        count, size = 0, FIRST_PAGE
        while True:
            for entry in page:
                if count == limit:
                    return
                checkpoint, _, stored = entry.decode().partition("\0")
                key = CheckpointKey(thread, from_storage_safe_str(stored), from_storage_safe_id(checkpoint))
                if namespace in (None, key.namespace):
                    yield key
                    count += 1
            if len(page) < size or count == limit:
                return
            size = min(size * 8, PAGE)
            page = await self._sessions.list_checkpoints(thread, page[-1].decode(), size) or list[bytes]()

    async def _search(self, query: Any) -> list[Any]:
        """Search the checkpoints. Recreate the indexes if FLUSHALL has removed them."""
        index: Any = self.checkpoints_index
        try:
            return (await index.search(query)).docs
        except RedisSearchError:
            if await index.exists():
                raise
            await _create_indexes(self)
            index = self.checkpoints_index
            return (await index.search(query)).docs

    async def _keys_by(
        self, condition: Any, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        query = FilterQuery(condition, list(_FIELDS), sort_by=("checkpoint_id", "DESC"))
        size = min(FIRST_PAGE if limit is None or before else limit, PAGE)
        count, last = 0, before
        while size:
            page: list[Any] = await self._search(query.paging(count, size))
            count += len(page)
            found = [_key(entry) for entry in page]
            for key in found:
                # A checkpoint stored in the meantime shifts the pages, so entries may repeat.
                if not last or not key.checkpoint or key.checkpoint < last:
                    yield key
            oldest = next((key.checkpoint for key in reversed(found) if key.checkpoint), last)
            last = min(last or oldest, oldest)
            if len(page) < size:
                return
            size = min(size * 8, PAGE)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        await self._sessions.delete_thread(thread_id)
        # Those that were stored before the set of the thread's keys existed, or after the server had lost it.
        await self.erase([key async for key in self.list_keys(thread_id)])

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        keys: list[CheckpointKey] = []
        for run in runs:
            keys += [key async for key in self._keys_by(_is("run_id", to_storage_safe_id(run)))]
        return keys

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes in the open transaction, or in one for each thread."""
        stored = await self._stored_keys(keys)
        for thread in dict.fromkeys(key.thread for key in keys):
            commands: list[Command] = [("DEL", *stored[key]) for key in keys if key.thread == thread]
            for namespace in dict.fromkeys(key.namespace for key in keys if key.thread == thread):
                commands += await self._move_pointer(thread, namespace, set(keys))
            if not collect(commands):
                await self._sessions.write(thread, commands)

    async def _stored_keys(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, list[str | bytes]]:
        """Return the Redis keys of each checkpoint and its pending writes."""
        registries = [self._registry.make_write_keys_zset_key(*key) for key in keys]
        async with self._client.pipeline(transaction=False) as pipeline:
            for registry in registries:
                pipeline.zrange(registry, 0, -1)
            writes = await pipeline.execute()
        stored = zip(keys, registries, writes, strict=True)
        return {key: [self.key_of(key), registry, *of_key] for key, registry, of_key in stored}

    async def _move_pointer(self, thread: str, namespace: str, erased: Collection[CheckpointKey]) -> list[Command]:
        """Return the commands that update the saver's pointer to the newest checkpoint after some are erased."""
        pointer = redis_pointer_of(self, thread, namespace)
        newest = await self._client.get(pointer)
        if newest not in {self.key_of(key).encode() for key in erased}:
            return []
        async for key in self.list_keys(thread, namespace):
            if key not in erased:
                return [("SET", pointer, self.key_of(key))]
        return [("DEL", pointer)]

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the memory that checkpoints and their pending writes take."""
        size = 0
        for start in range(0, len(keys), PAGE):
            stored = await self._stored_keys(keys[start : start + PAGE])
            async with self._client.pipeline(transaction=False) as pipeline:
                for names in stored.values():
                    for name in names:
                        pipeline.memory_usage(name)
                size += sum(filter(None, await pipeline.execute()))
        return size

    async def release_space(self) -> None:
        """Do nothing: Redis releases memory by itself."""


def _is(name: str, value: str) -> Any:
    tag: Any = Tag(name)
    return tag == value


def _key(entry: Any) -> CheckpointKey:
    """Return the key in an entry of the index. A field of a damaged document can be missing; it is None then."""
    thread, namespace, checkpoint = (getattr(entry, name, None) for name in _FIELDS)
    stored: Any = (from_storage_safe_id(thread), from_storage_safe_str(namespace), from_storage_safe_id(checkpoint))  # pyright: ignore[reportArgumentType] - they return None as it is
    return CheckpointKey(*stored)


async def _create_indexes(saver: RedisSaver) -> None:
    """Create the indexes that do not exist.

    If several processes open a new store at once, all of them find no index, and all but one fail to create it. Each
    index can fail once: the next attempt finds it.
    """
    for _ in (CHECKPOINTS, WRITES):
        with suppress(RedisSearchError):
            return await saver.asetup()
    await saver.asetup()


async def redis_saver(
    client: CollectingRedis, sessions: RedisSessions, prefix: str, *, has_one_slot: bool = False
) -> CanvasSaver:
    """Create a saver.

    Raises:
        CheckpointError: if the server refuses to create the indexes.
    """
    saver = RedisSaver(client, sessions, prefix, has_one_slot=has_one_slot)
    try:
        await _create_indexes(saver)
    except (RedisError, RedisVLError) as error:
        raise CheckpointError(f"The Redis server cannot store sessions: {error}.") from error

    @asynccontextmanager
    async def transaction(precondition: Precondition | None) -> AsyncGenerator[None]:
        if precondition is None:
            yield
            return
        with collecting_writes() as commands:
            yield
        checkpoint = saver.key_of(precondition.checkpoint) if precondition.checkpoint else ""
        await sessions.write_checked(precondition, commands, checkpoint)

    errors = (RedisError, RedisVLError, OSError)
    return CanvasSaver(saver, RedisBlobs(client, sessions), errors=errors, transaction=transaction)
