"""Checkpoints in Redis (with JSON and search): LangGraph's saver, using a client whose writes are fenced."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.redis.util import (
    from_storage_safe_id,
    from_storage_safe_str,
    to_storage_safe_id,
    to_storage_safe_str,
)
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redisvl.query import CountQuery, FilterQuery
from redisvl.query.filter import FilterExpression, Tag

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints.fence_token import EPOCH, EPOCH_MISMATCH, LEASE_MISMATCH, NO_LEASE, FenceToken
from ragflow_lg.checkpoints.pruning import CheckpointKey
from ragflow_lg.checkpoints.redis.redis_server import missing_modules
from ragflow_lg.checkpoints.redis.redis_url import create_client
from ragflow_lg.checkpoints.saver import CanvasSaver

CHECKPOINTS = "checkpoint"
WRITES = "checkpoint_write"
_EPOCH_OF = f"""
redis.call('HSETNX', KEYS[1], '{EPOCH}', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HGET', KEYS[1], '{EPOCH}')
"""
_RUN_FENCED = f"""
local token = redis.call('HGET', KEYS[1], 'token') or '{NO_LEASE}'
if token ~= ARGV[1] then return redis.error_reply('{LEASE_MISMATCH}') end
if redis.call('HGET', KEYS[2], '{EPOCH}') ~= ARGV[2] then return redis.error_reply('{EPOCH_MISMATCH}') end
local results, at = {{}}, 3
while at <= #ARGV do
    local count, command = tonumber(ARGV[at]), {{}}
    for i = 1, count do command[i] = ARGV[at + i] end
    local result = redis.pcall(unpack(command))
    results[#results + 1] = (type(result) == 'table' and result.err) and 'error ' .. result.err or 'ok'
    at = at + count + 1
end
return results
"""
"""Compares the token and the epoch, then runs a pipeline's commands, all atomically."""
PAGE = 1000
"""Number of keys per page of a listing."""
TIMEOUT_S = 5.0
"""Timeout of a response."""
CONNECT_S = 3.0
RETRIES = 3
"""Retries after a refused or broken connection."""
MAX_FIELDS = 500
"""Maximum number of hash fields per command: a server-side script accepts at most 8,000 values at once."""
_WRITE_COMMANDS = {"SET", "JSON.SET", "JSON.MERGE", "ZADD", "DEL", "HSET"}
"""Commands that are fenced. EXPIRE is not: it is harmless, and LangGraph's saver would keep retrying if refused."""


class _Fence(NamedTuple):
    lease_key: str
    blobs_key: str
    token: FenceToken


_fence: ContextVar[_Fence | None] = ContextVar("fence", default=None)


def lease_key(prefix: str, session: str) -> str:
    """Return the key for a session's lease."""
    return f"{prefix}agent:active-session:{session}"


class FencedPipeline(Pipeline):
    """A pipeline whose commands run only while its fence token is current."""

    owner: FencedRedis

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all commands, or none of them if the fence token is outdated."""
        fence, stack = _fence.get(), cast("list[Any]", self.command_stack)
        if fence is None or not any(command[0] in _WRITE_COMMANDS for command, _ in stack):
            return await super().execute(raise_on_error)
        commands = [command for command, _ in stack]
        await self.reset()
        return await self.owner.run_fenced(fence, commands, raise_on_error)


def _result(entry: Any, raise_on_error: bool) -> Any:
    text = entry.decode() if isinstance(entry, bytes) else str(entry)
    if text == "ok":
        return True
    error = ResponseError(text.removeprefix("error "))
    if raise_on_error:
        raise error
    return error


class FencedRedis(Redis):
    """A client whose write commands run only while the current fence token is valid."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command; writes are fenced."""
        fence = _fence.get()
        if fence is None or args[0] not in _WRITE_COMMANDS:
            return await cast("Any", super()).execute_command(*args, **options)
        (result,) = await self.run_fenced(fence, [args], raise_on_error=True)
        return result

    async def run_fenced(self, fence: _Fence, commands: Sequence[Sequence[Any]], raise_on_error: bool) -> list[Any]:
        """Execute all commands in one step, or none of them if the fence token is outdated."""
        arguments: list[Any] = [fence.token.token, fence.token.epoch]
        for command in commands:
            arguments += [len(command), *command]
        results = await self.execute_command("EVAL", _RUN_FENCED, 2, fence.lease_key, fence.blobs_key, *arguments)
        return [_result(entry, raise_on_error) for entry in results]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a fenced pipeline."""
        pipeline = FencedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.owner = self
        return pipeline


class RedisBlobs:
    """Blobs stored in one hash per thread, which expires together with the thread's checkpoints."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix
        self._ttl_s = ttl_s

    async def epoch(self, thread: str) -> str:
        """Return a thread's epoch, creating it if necessary."""
        epoch: bytes = await self._client.eval(_EPOCH_OF, 1, self.key(thread), secrets.token_hex(8), self._ttl_s)
        return epoch.decode()

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs."""
        pipeline = self._client.pipeline(transaction=False)
        texts = list(blobs.items())
        for start in range(0, len(texts), MAX_FIELDS):
            pipeline.hset(self.key(thread), mapping=dict(texts[start : start + MAX_FIELDS]))
        pipeline.expire(self.key(thread), self._ttl_s)
        await pipeline.execute()

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        texts: list[bytes | None] = await self._client.hmget(self.key(thread), list(digests))
        await self._client.expire(self.key(thread), self._ttl_s)
        return {digest: text for digest, text in zip(digests, texts, strict=True) if text is not None}

    async def delete(self, thread: str) -> None:
        """Delete all of a thread's blobs."""
        await self._client.delete(self.key(thread))

    def key(self, thread: str) -> str:
        """Return the hash's key."""
        return f"{self._prefix}checkpoint_blobs:{thread}"


@asynccontextmanager
async def open_redis(url: str) -> AsyncGenerator[FencedRedis]:
    """Open a client after checking the server's modules.

    Raises:
        CheckpointError: if the server does not respond or lacks a module.
    """
    if missing := missing_modules(url):
        raise CheckpointError(
            f"The Redis server lacks the module(s) {', '.join(missing)}. Use redis:8, which includes them."
        )
    # Timeouts are not retried, so that a request waits for an unresponsive server only once.
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), RETRIES, supported_errors=(RedisConnectionError,))
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": CONNECT_S, "retry": retry}
    client = cast("FencedRedis", create_client(url, FencedRedis, Sentinel, **options))
    try:
        await _refuse_cluster(client)
        yield client
    finally:
        await client.aclose()


async def _refuse_cluster(client: FencedRedis) -> None:
    try:
        facts: dict[str, Any] = await cast("Any", client).info("cluster")
    except RedisError as error:
        raise CheckpointError(f"The Redis server fails: {error}") from error
    if facts.get("cluster_enabled"):
        raise CheckpointError("Redis clusters are not supported: use a single server, or a Sentinel.")


class RedisSaver(AsyncRedisSaver):
    """LangGraph's saver without its limit of 10,000 checkpoints when listing and deleting."""

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first. Only their indexed fields are read."""
        await self._ensure_indexes()
        condition: Any = FilterExpression("*")
        if thread is not None:
            condition = condition & _is("thread_id", to_storage_safe_id(thread))
        if namespace is not None:
            condition = condition & _is("checkpoint_ns", to_storage_safe_str(namespace))
        count = 0
        async for key in self._keys_by(condition, before, limit):
            if count == limit:
                return
            yield key
            count += 1

    async def _ensure_indexes(self) -> None:
        """Recreate the indexes if FLUSHALL has removed them."""
        for index in (self.checkpoints_index, self.checkpoint_writes_index):
            if not await index.exists():
                await index.create(overwrite=False)

    async def _keys_by(
        self, condition: Any, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        fields = ["thread_id", "checkpoint_ns", "checkpoint_id"]
        query = FilterQuery(condition, fields, sort_by=("checkpoint_id", "DESC"))
        index: Any = self.checkpoints_index
        size = PAGE if limit is None or before else min(limit, PAGE)
        count, last = 0, before
        while size:
            page: list[Any] = (await index.search(query.paging(count, size))).docs
            count += len(page)
            for entry in page:
                # A checkpoint stored in the meantime shifts the pages, so entries may repeat.
                if not last or entry.checkpoint_id < last:
                    yield _key(entry)
            last = min(last, page[-1].checkpoint_id) if last and page else page[-1].checkpoint_id if page else last
            if len(page) < size:
                return

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        await self._ensure_indexes()
        condition = _is("thread_id", to_storage_safe_id(thread_id))
        while True:
            await super().adelete_thread(thread_id)
            indexes = (self.checkpoints_index, self.checkpoint_writes_index)
            if not any([await index.query(CountQuery(condition)) for index in indexes]):
                return

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        await self._ensure_indexes()
        keys: list[CheckpointKey] = []
        for run in runs:
            keys += [key async for key in self._keys_by(_is("run_id", to_storage_safe_id(run)))]
        return keys

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes."""
        await self._ensure_indexes()
        index: Any = self.checkpoint_writes_index
        for key in keys:
            thread, checkpoint = to_storage_safe_id(key.thread), to_storage_safe_id(key.checkpoint)
            namespace = to_storage_safe_str(key.namespace)
            redis_keys = [self._make_redis_checkpoint_key(thread, namespace, checkpoint)]
            if self._key_registry is not None:
                redis_keys.append(self._key_registry.make_write_keys_zset_key(*key))
            written = _is("thread_id", thread) & _is("checkpoint_ns", namespace) & _is("checkpoint_id", checkpoint)
            while True:
                query = FilterQuery(written, ["task_id"], num_results=PAGE)
                page: list[Any] = (await index.search(query)).docs
                await cast("Any", self._redis).delete(*redis_keys, *(entry.id for entry in page))
                if len(page) < PAGE:
                    break
        for thread, namespace in {key[:2] for key in keys}:
            await self._point_at_newest(thread, namespace)

    async def _point_at_newest(self, thread: str, namespace: str) -> None:
        """Update the saver's pointer to the newest checkpoint."""
        client, pointer = cast("Any", self._redis), self._make_redis_checkpoint_latest_key(thread, namespace)
        async for newest in self.list_keys(thread, namespace, limit=1):
            checkpoint = to_storage_safe_id(newest.checkpoint)
            key = self._make_redis_checkpoint_key(
                to_storage_safe_id(thread), to_storage_safe_str(namespace), checkpoint
            )
            await client.set(pointer, key, keepttl=True)
            return
        await client.delete(pointer)


def _is(name: str, value: str) -> Any:
    tag: Any = Tag(name)
    return tag == value


def _key(entry: Any) -> CheckpointKey:
    return CheckpointKey(
        from_storage_safe_id(entry.thread_id),
        from_storage_safe_str(entry.checkpoint_ns),
        from_storage_safe_id(entry.checkpoint_id),
    )


async def redis_saver(client: FencedRedis, *, prefix: str, ttl_s: int) -> CanvasSaver:
    """Create a saver.

    Raises:
        CheckpointError: if the server refuses to create the indexes.
    """
    saver = RedisSaver(
        redis_client=client,
        ttl={"default_ttl": ttl_s / 60, "refresh_on_read": True},
        checkpoint_prefix=f"{prefix}{CHECKPOINTS}",
        checkpoint_write_prefix=f"{prefix}{WRITES}",
    )
    try:
        await saver.asetup()
    except RedisError as error:
        raise CheckpointError(f"The Redis server cannot store sessions: {error}.") from error

    blobs = RedisBlobs(client, prefix, ttl_s)

    @asynccontextmanager
    async def transaction(token: FenceToken | None) -> AsyncGenerator[None]:
        if token is None:
            yield
            return
        key = lease_key(prefix, session_of_thread(token.thread))
        mark = _fence.set(_Fence(key, blobs.key(token.thread), token))
        try:
            yield
        finally:
            _fence.reset(mark)

    from redisvl.exceptions import RedisVLError

    return CanvasSaver(saver, blobs, errors=(RedisError, RedisVLError, OSError), transaction=transaction)
