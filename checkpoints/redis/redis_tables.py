"""Checkpoints, pending writes and blobs in Redis: two hashes for each thread, so that a server loses all or nothing.

The hash of checkpoints has the fields ``c␀namespace␀id`` with a checkpoint, ``w␀namespace␀id`` with its pending writes,
and ``n␀namespace`` with the id of the newest one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
from redis.exceptions import RedisError, ResponseError

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.redis.redis_client import Command, collecting_writes
from ragflow_lg.checkpoints.redis.redis_sessions import APPEND, NEWEST, RedisSessions
from ragflow_lg.checkpoints.steps.stored_texts import MAX_EXPANDED_BYTES
from ragflow_lg.checkpoints.steps.thread_tables import PART_MISSING, CheckpointKey, Precondition, StoredCheckpoint

MAX_FIELDS = 500
"""Maximum number of hash fields per command: a server-side script accepts at most 8,000 values at once."""
_LENGTH = 4
"""Number of bytes before a pending write that say how long it is."""

_CHECKPOINT = msgspec.msgpack.Decoder(tuple[str, bytes, bytes])
_WRITE = msgspec.msgpack.Decoder(tuple[str, int, str, bytes])


LARGE_BYTES = 64 * 1024
"""Texts from this size on are compressed: Redis's only thread copies them several times, while everybody else waits."""
_PACKED = b"\0z"
"""JSON text begins differently."""


class RedisTables:
    """The rows of all threads. Implements `ragflow_lg.checkpoints.steps.thread_tables.ThreadTables`."""

    errors: tuple[type[Exception], ...] = (RedisError, OSError)

    def __init__(self, sessions: RedisSessions) -> None:
        self._client = sessions.client
        self._sessions = sessions

    @asynccontextmanager
    async def transaction(self, precondition: Precondition) -> AsyncGenerator[None]:
        """Open a transaction that fails if the precondition does not hold."""
        with collecting_writes() as commands:
            yield
        await self._sessions.write_checked(precondition, commands)

    async def put(self, key: CheckpointKey, parent: str, checkpoint: bytes, metadata: bytes) -> None:
        """Store a checkpoint."""
        stored = msgspec.msgpack.encode((parent, checkpoint, metadata))
        fields = (_field("c", key), stored, f"n\0{key.namespace}", key.checkpoint)
        await self._sessions.write(key.thread, [("HSET", self._sessions.checkpoints_key(key.thread), *fields)])

    async def put_writes(self, key: CheckpointKey, task: str, writes: Sequence[tuple[int, str, bytes]]) -> None:
        """Store a task's writes. `get` prefers the last one with a negative index, and the first one with another."""
        texts = [msgspec.msgpack.encode((task, *write)) for write in writes]
        stored = b"".join(len(text).to_bytes(_LENGTH, "big") + text for text in texts)
        place = self._sessions.checkpoints_key(key.thread), _field("w", key)
        await self._sessions.write(key.thread, [(APPEND, *place, stored)])

    async def get(self, key: CheckpointKey) -> StoredCheckpoint | None:
        """Return a checkpoint, or the newest one of the namespace if the key has no id."""
        found = await self._sessions.read(*key)
        if not found:
            return None
        parent, checkpoint, metadata = _CHECKPOINT.decode(found[1])
        writes: dict[tuple[str, int], tuple[str, str, bytes]] = {}
        for task, index, channel, value in map(_WRITE.decode, _split(found[2])):
            if index < 0 or (task, index) not in writes:
                writes[task, index] = task, channel, value
        stored = key._replace(checkpoint=found[0].decode())
        return StoredCheckpoint(stored, parent, checkpoint, metadata, [writes[place] for place in sorted(writes)])

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first."""
        keys: list[CheckpointKey] = []
        for each in await self._threads() if thread is None else [thread]:
            try:
                keys += await self._keys_of(each)
            except ResponseError:
                if thread is not None:
                    raise  # otherwise, one damaged session hides no others
        wanted = [key for key in keys if namespace in (None, key.namespace) and (not before or key.checkpoint < before)]
        for key in sorted(wanted, key=lambda key: key.checkpoint, reverse=True)[:limit]:
            yield key

    async def _keys_of(self, thread: str) -> list[CheckpointKey]:
        names: list[bytes] = await self._client.hkeys(self._sessions.checkpoints_key(thread))
        if not names and await self._client.exists(self._sessions.blobs_key(thread)):
            raise ResponseError(PART_MISSING)
        parts = [name.decode("utf-8", "replace").split("\0") for name in names if name.startswith(b"c\0")]
        return [CheckpointKey(thread, part[1], part[2]) for part in parts if len(part) == 3]

    async def _threads(self) -> list[str]:
        """Return all threads with checkpoints, by looking at all keys of the server."""
        start = self._sessions.checkpoints_key("")
        pattern = re.sub(r"[*?\[\]\\^-]", r"\\\g<0>", start) + "*"
        return [key.decode()[len(start) :] async for key in self._client.scan_iter(match=pattern, count=1000)]

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints of one thread and their pending writes."""
        place, thread = self._sessions.checkpoints_key(keys[0].thread), keys[0].thread
        commands: list[Command] = [("HDEL", place, _field("c", key), _field("w", key)) for key in keys]
        commands += [(NEWEST, namespace) for namespace in dict.fromkeys(key.namespace for key in keys)]
        await self._sessions.write(thread, commands)

    async def delete_thread(self, thread: str) -> None:
        """Delete everything that belongs to a thread."""
        await self._client.unlink(self._sessions.checkpoints_key(thread), self._sessions.blobs_key(thread))

    async def put_blobs(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs. Large ones are compressed."""
        key, texts = self._sessions.blobs_key(thread), list(blobs.items())
        pages = [texts[start : start + MAX_FIELDS] for start in range(0, len(texts), MAX_FIELDS)]
        commands = [("HSET", key, *(part for name, text in page for part in (name, pack(text)))) for page in pages]
        await self._sessions.write(thread, commands)

    async def find_blobs(self, thread: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        texts: list[bytes | None] = await self._client.hmget(self._sessions.blobs_key(thread), list(names))
        try:
            pairs = zip(names, texts, strict=True)
            return {name: unpack(text, MAX_EXPANDED_BYTES) for name, text in pairs if text is not None}
        except ValueError as error:
            raise DamagedSessionError(f"A stored value is damaged: {error}.") from None

    async def blob_names(self, thread: str) -> Sequence[str]:
        """Return the names of all of a thread's blobs."""
        return [name.decode() for name in await self._client.hkeys(self._sessions.blobs_key(thread))]

    async def erase_blobs(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs."""
        await self._sessions.write(thread, [("HDEL", self._sessions.blobs_key(thread), *names)])


def _field(kind: str, key: CheckpointKey) -> str:
    return f"{kind}\0{key.namespace}\0{key.checkpoint}"


def _split(stored: bytes) -> list[bytes]:
    """Return pending writes, each of which follows its length."""
    texts: list[bytes] = []
    while stored:
        end = _LENGTH + int.from_bytes(stored[:_LENGTH], "big")
        if len(stored) < end:
            raise ValueError("a pending write is incomplete")
        texts.append(stored[_LENGTH:end])
        stored = stored[end:]
    return texts


def pack(text: bytes) -> bytes:
    """Return a JSON text, or its compressed form if that is much shorter."""
    if len(text) < LARGE_BYTES:
        return text
    packed = _PACKED + zlib.compress(text, 1)
    return packed if len(packed) < len(text) * 0.9 else text


def unpack(stored: bytes, max_bytes: int) -> bytes:
    """Return the text of which `pack` has returned the stored form.

    Raises:
        ValueError: if it is damaged, or has more than ``max_bytes``.
    """
    if not stored.startswith(_PACKED):
        return stored
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(stored[len(_PACKED) :], max_bytes)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise ValueError("it is incomplete or too large")
    return text
