"""Checkpoints in Redis, stored as LangGraph's saver does, whose writes run in a script of `redis_sessions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.packed_bytes import LARGE_BYTES, is_packed, pack, unpack
from ragflow_lg.checkpoints.redis.redis_client import Command, collecting_writes
from ragflow_lg.checkpoints.redis.redis_documents import (
    KeyNames,
    dump_checkpoint,
    dump_write,
    read_checkpoint,
    read_namespace,
    read_tuple,
)
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.steps.preconditions import PART_MISSING, Precondition
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, key_config
from ragflow_lg.checkpoints.values.decoding import MAX_EXPANDED_BYTES

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
        key, texts = self._sessions.blobs_key(thread), list(blobs.items())
        pages = [texts[start : start + MAX_FIELDS] for start in range(0, len(texts), MAX_FIELDS)]
        commands = [("HSET", key, *(part for name, text in page for part in (name, _pack(text)))) for page in pages]
        await self._sessions.write(thread, commands)

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
        await self._sessions.write(thread, [("HDEL", self._sessions.blobs_key(thread), *names)])


def _pack(text: bytes) -> bytes:
    return text if len(text) < LARGE_BYTES else pack(text)


def _unpack(text: bytes, digest: str) -> bytes:
    try:
        return unpack(text, MAX_EXPANDED_BYTES)
    except ValueError as error:
        raise DamagedSessionError(f"A stored value is damaged: part {digest}: {error}.") from None


class RedisSaver(BaseCheckpointSaver[Any]):
    """Writes documents in the open transaction. `RedisSessions` sets the keys' time to live."""

    def __init__(self, client: Redis, sessions: RedisSessions, names: KeyNames) -> None:
        super().__init__()
        self._client = cast("Any", client)
        self._sessions = sessions
        self.names = names

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint in the open transaction, as LangGraph's saver does."""
        thread, namespace, parent = checkpoint_key(config)
        key = CheckpointKey(thread, namespace, checkpoint["id"])
        document = dump_checkpoint(key, parent, checkpoint, cast("Mapping[str, Any]", metadata))
        place = self.names.checkpoint(key)
        pointer = ("SET", self.names.pointer(thread, namespace), place)
        await self._sessions.write(thread, [self._sessions.set_document(place, document), pointer])
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
            place = self.names.write(key, task_id, index)
            text = dump_write(key, (task_id, task_path), index, channel, value)
            commands.append(self._sessions.set_document(place, text))
            entries += (number, place)
        await self._sessions.write(key.thread, [*commands, ("ZADD", self.names.registry(key), *entries)])

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes.

        Raises:
            ResponseError: if the server has lost a part of it.
            ValueError: if a part of it is damaged.
        """
        key = checkpoint_key(config)
        checkpoint = key.checkpoint
        stored = await self._sessions.read(*self._read_arguments(key))
        if stored is None:
            raise ResponseError(PART_MISSING)
        if not stored:
            return None
        document = read_checkpoint(stored[0])
        if document.key() != key._replace(checkpoint=checkpoint or document.key().checkpoint):
            raise ValueError("it belongs to another session")
        return read_tuple(document, stored[1:])

    def _read_arguments(self, key: CheckpointKey) -> tuple[str, str, str, str]:
        thread, namespace, checkpoint = key
        writes_prefix = self.names.registry(key._replace(checkpoint="*")).removesuffix("*")
        place = self.names.checkpoint(key) if checkpoint else ""
        return thread, self.names.pointer(thread, namespace), place, writes_prefix

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first, in pages."""
        if thread is None:
            keys: list[CheckpointKey] = []
            for each in await self._sessions.threads():
                with suppress(ResponseError):  # one damaged session hides no others
                    keys += [key async for key in self.list_keys(each, namespace, before=before)]
            for key in sorted(keys, key=lambda key: key.checkpoint, reverse=True)[:limit]:
                yield key
            return
        count, size, bound = 0, FIRST_PAGE, before.encode()
        while count != limit:
            page = await self._sessions.list_checkpoints(thread, bound, size)
            for entry in page:
                checkpoint, _, stored = entry.decode("utf-8", "replace").partition("\0")
                key = CheckpointKey(thread, read_namespace(stored), checkpoint)
                if namespace in (None, key.namespace) and count != limit:
                    yield key
                    count += 1
            if len(page) < size:
                return
            size, bound = min(size * 8, PAGE), page[-1]

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        await self._sessions.delete_thread(thread_id)

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored, by reading all checkpoints."""
        keys, found = [key async for key in self.list_keys(None)], list[CheckpointKey]()
        for start in range(0, len(keys), PAGE):
            async with self._client.pipeline(transaction=False) as pipeline:
                for key in keys[start : start + PAGE]:
                    pipeline.execute_command(*self._sessions.get_document(self.names.checkpoint(key)))
                texts: list[bytes | None] = await pipeline.execute()
            documents = zip(keys[start : start + PAGE], texts, strict=True)
            found += [key for key, text in documents if text and read_checkpoint(text).run_id in runs]
        return found

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes in the open transaction, or in one for each thread."""
        stored = await self._stored_keys(keys)
        for thread in dict.fromkeys(key.thread for key in keys):
            commands: list[Command] = [("DEL", *stored[key]) for key in keys if key.thread == thread]
            for namespace in dict.fromkeys(key.namespace for key in keys if key.thread == thread):
                commands += await self._move_pointer(thread, namespace, set(keys))
            await self._sessions.write(thread, commands)

    async def _stored_keys(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, list[str | bytes]]:
        """Return the Redis keys of each checkpoint and its pending writes."""
        registries = [self.names.registry(key) for key in keys]
        async with self._client.pipeline(transaction=False) as pipeline:
            for registry in registries:
                pipeline.zrange(registry, 0, -1)
            writes = await pipeline.execute()
        stored = zip(keys, registries, writes, strict=True)
        return {key: [self.names.checkpoint(key), registry, *of_key] for key, registry, of_key in stored}

    async def _move_pointer(self, thread: str, namespace: str, erased: Collection[CheckpointKey]) -> list[Command]:
        """Return the commands that update the pointer to the newest checkpoint after some are erased."""
        pointer = self.names.pointer(thread, namespace)
        newest = await self._client.get(pointer)
        if newest not in {self.names.checkpoint(key).encode() for key in erased}:
            return []
        async for key in self.list_keys(thread, namespace):
            if key not in erased:
                return [("SET", pointer, self.names.checkpoint(key))]
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


def redis_saver(client: Redis, sessions: RedisSessions, names: KeyNames) -> CanvasSaver:
    """Create a saver."""
    saver = RedisSaver(client, sessions, names)

    @asynccontextmanager
    async def transaction(precondition: Precondition | None) -> AsyncGenerator[None]:
        if precondition is None:
            yield
            return
        with collecting_writes() as commands:
            yield
        checkpoint = names.checkpoint(precondition.checkpoint) if precondition.checkpoint else ""
        await sessions.write_checked(precondition, commands, checkpoint)

    return CanvasSaver(saver, RedisBlobs(client, sessions), errors=(RedisError, OSError), transaction=transaction)
