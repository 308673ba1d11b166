"""Sessions in Redis (with JSON and search): LangGraph's saver over a client whose writes are fenced."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
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
from ragflow_lg.checkpoints.fence_token import EPOCH, FENCED, NO_LEASE, RENEWED, FenceToken
from ragflow_lg.checkpoints.pruning import Place, place_of
from ragflow_lg.checkpoints.redis.redis_server import missing_modules
from ragflow_lg.checkpoints.redis.redis_url import client_of
from ragflow_lg.checkpoints.saver import CanvasSaver

__all__ = ["FencedRedis", "PagedRedisSaver", "RedisBlobs", "lease_key", "open_redis", "redis_saver"]

CHECKPOINTS = "checkpoint"
WRITES = "checkpoint_write"
_EPOCH_OF = f"""
redis.call('HSETNX', KEYS[1], '{EPOCH}', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HGET', KEYS[1], '{EPOCH}')
"""
_PLAY = f"""
local token = redis.call('HGET', KEYS[1], 'token') or '{NO_LEASE}'
if token ~= ARGV[1] then return redis.error_reply('{FENCED}') end
if redis.call('HGET', KEYS[2], '{EPOCH}') ~= ARGV[2] then return redis.error_reply('{RENEWED}') end
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
"""Compares token and epoch and plays the commands of a pipeline: one step, so that nothing comes between."""
PLACES = 1000
TIMEOUT_S = 5.0
"""How long Redis may take to answer."""
CONNECT_S = 3.0
RETRIES = 3
"""How often a connection that breaks off, or is refused, is tried again."""
AT_ONCE = 16
FIELDS = 500
"""How many fields of a hash one command writes: a script of the server takes no more than 8,000 values at once."""
_WRITES = {"SET", "JSON.SET", "JSON.MERGE", "ZADD", "DEL", "HSET"}
"""Commands that are fenced. EXPIRE alone does no harm, and the saver would try a refused one again and again."""


class _Fence(NamedTuple):
    lease_key: str
    blobs_key: str
    claim: FenceToken


_fence: ContextVar[_Fence | None] = ContextVar("fence", default=None)


def lease_key(prefix: str, session: str) -> str:
    """Give the key of a session's lease."""
    return f"{prefix}agent:active-session:{session}"


class FencedPipeline(Pipeline):
    """A pipeline that plays its commands only by right of the claim it is used under."""

    owner: FencedRedis

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Play the commands; all or none of them, by the claim."""
        fence, stack = _fence.get(), cast("list[Any]", self.command_stack)
        if fence is None or not any(command[0] in _WRITES for command, _ in stack):
            return await super().execute(raise_on_error)
        commands = [command for command, _ in stack]
        await self.reset()
        return await self.owner.play(fence, commands, raise_on_error)


def _result(entry: Any, raise_on_error: bool) -> Any:
    text = entry.decode() if isinstance(entry, bytes) else str(entry)
    if text == "ok":
        return True
    error = ResponseError(text.removeprefix("error "))
    if raise_on_error:
        raise error
    return error


class FencedRedis(Redis):
    """A client whose writes are fenced."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command; one that writes only by the claim it is used under."""
        fence = _fence.get()
        if fence is None or args[0] not in _WRITES:
            return await cast("Any", super()).execute_command(*args, **options)
        (result,) = await self.play(fence, [args], raise_on_error=True)
        return result

    async def play(self, fence: _Fence, commands: Sequence[Sequence[Any]], raise_on_error: bool) -> list[Any]:
        """Execute commands in one step, all or none of them, by the claim."""
        arguments: list[Any] = [fence.claim.token, fence.claim.epoch]
        for command in commands:
            arguments += [len(command), *command]
        results = await self.execute_command("EVAL", _PLAY, 2, fence.lease_key, fence.blobs_key, *arguments)
        return [_result(entry, raise_on_error) for entry in results]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Give a pipeline."""
        pipeline = FencedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.owner = self
        return pipeline


class RedisBlobs:
    """Blobs in one hash per thread, which lives as long as the thread's checkpoints."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix
        self._ttl_s = ttl_s

    async def epoch(self, thread: str) -> str:
        """Give the mark of a thread, made if there is none."""
        mark: bytes = await self._client.eval(_EPOCH_OF, 1, self.key(thread), secrets.token_hex(8), self._ttl_s)
        return mark.decode()

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store texts."""
        pipeline = self._client.pipeline(transaction=False)
        texts = list(blobs.items())
        for at in range(0, len(texts), FIELDS):
            pipeline.hset(self.key(thread), mapping=dict(texts[at : at + FIELDS]))
        pipeline.expire(self.key(thread), self._ttl_s)
        await pipeline.execute()

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        texts: list[bytes | None] = await self._client.hmget(self.key(thread), list(digests))
        await self._client.expire(self.key(thread), self._ttl_s)
        return {digest: text for digest, text in zip(digests, texts, strict=True) if text is not None}

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        await self._client.delete(self.key(thread))

    def key(self, thread: str) -> str:
        """Give the key of the hash."""
        return f"{self._prefix}checkpoint_blobs:{thread}"


@asynccontextmanager
async def open_redis(url: str) -> AsyncGenerator[FencedRedis]:
    """Open a client, once the server has shown that it has what the saver needs.

    Raises:
        CheckpointError: if it does not answer, or lacks a module.
    """
    if missing := missing_modules(url):
        raise CheckpointError(
            f"The Redis server lacks the module(s) {', '.join(missing)}. Use redis:8, which has them."
        )
    # What is silent is not asked again: an answer waits for it once.
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), RETRIES, supported_errors=(RedisConnectionError,))
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": CONNECT_S, "retry": retry}
    client = cast("FencedRedis", client_of(url, FencedRedis, Sentinel, **options))
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
        raise CheckpointError("A Redis cluster is not supported: name a single server, or a Sentinel.")


class PagedRedisSaver(AsyncRedisSaver):
    """LangGraph's saver, which by itself neither lists nor deletes more than 10,000 checkpoints."""

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Go through the checkpoints of a thread, newest first. The other arguments are left to the caller."""
        await self._ready()
        async for places in self._places(config):
            for found in await asyncio.gather(*map(self.aget_tuple, places)):
                if found is not None:
                    yield found

    async def _ready(self) -> None:
        """Make the indexes anew that a FLUSHALL has taken along."""
        for index in (self.checkpoints_index, self.checkpoint_writes_index):
            if not await index.exists():
                await index.create(overwrite=False)

    async def _places(self, config: RunnableConfig | None) -> AsyncIterator[list[RunnableConfig]]:
        """Give the configs of checkpoints, some at a time."""
        wanted = (config or {}).get("configurable", {})
        narrow: Any = FilterExpression("*")
        if "thread_id" in wanted:
            narrow = narrow & _is("thread_id", to_storage_safe_id(wanted["thread_id"]))
        if "checkpoint_ns" in wanted:
            narrow = narrow & _is("checkpoint_ns", to_storage_safe_str(wanted["checkpoint_ns"]))
        async for places in self._places_by(narrow):
            yield places

    async def _places_by(self, narrow: Any) -> AsyncIterator[list[RunnableConfig]]:
        fields = ["thread_id", "checkpoint_ns", "checkpoint_id"]
        query = FilterQuery(narrow, fields, sort_by=("checkpoint_id", "DESC"))
        index: Any = self.checkpoints_index
        count, last = 0, ""
        while True:
            page: list[Any] = (await index.search(query.paging(count, PLACES))).docs
            count += len(page)
            # What has been stored meanwhile pushes the others on: they come again.
            fresh = [entry for entry in page if not last or entry.checkpoint_id < last]
            last = page[-1].checkpoint_id if page else last
            for at in range(0, len(fresh), AT_ONCE):
                yield [_config(entry) for entry in fresh[at : at + AT_ONCE]]
            if len(page) < PLACES:
                return

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        await self._ready()
        mine = _is("thread_id", to_storage_safe_id(thread_id))
        while True:
            await super().adelete_thread(thread_id)
            indexes = (self.checkpoints_index, self.checkpoint_writes_index)
            if not any([await index.query(CountQuery(mine)) for index in indexes]):
                return

    async def places_of_runs(self, runs: Collection[str]) -> list[Place]:
        """Give the checkpoints that runs have stored."""
        await self._ready()
        found: list[Place] = []
        for run in runs:
            async for some in self._places_by(_is("run_id", to_storage_safe_id(run))):
                found += map(place_of, some)
        return found

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints and what was written to them."""
        await self._ready()
        index: Any = self.checkpoint_writes_index
        for place in places:
            thread, checkpoint = to_storage_safe_id(place.thread), to_storage_safe_id(place.checkpoint)
            namespace = to_storage_safe_str(place.namespace)
            keys = [self._make_redis_checkpoint_key(thread, namespace, checkpoint)]
            if self._key_registry is not None:
                keys.append(self._key_registry.make_write_keys_zset_key(*place))
            written = _is("thread_id", thread) & _is("checkpoint_ns", namespace) & _is("checkpoint_id", checkpoint)
            while True:
                query = FilterQuery(written, ["task_id"], num_results=PLACES)
                page: list[Any] = (await index.search(query)).docs
                await cast("Any", self._redis).delete(*keys, *(entry.id for entry in page))
                if len(page) < PLACES:
                    break
        for thread, namespace in {place[:2] for place in places}:
            await self._point_at_newest(thread, namespace)

    async def _point_at_newest(self, thread: str, namespace: str) -> None:
        """Mend the saver's note of which checkpoint is the newest."""
        client, note = cast("Any", self._redis), self._make_redis_checkpoint_latest_key(thread, namespace)
        wanted: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
        async with aclosing(cast("AsyncGenerator[list[RunnableConfig]]", self._places(wanted))) as pages:
            async for page in pages:
                newest = to_storage_safe_id(place_of(page[0]).checkpoint)
                key = self._make_redis_checkpoint_key(
                    to_storage_safe_id(thread), to_storage_safe_str(namespace), newest
                )
                await client.set(note, key, keepttl=True)
                return
        await client.delete(note)


def _is(field: str, value: str) -> Any:
    tag: Any = Tag(field)
    return tag == value


def _config(entry: Any) -> RunnableConfig:
    place = {
        "thread_id": from_storage_safe_id(entry.thread_id),
        "checkpoint_ns": from_storage_safe_str(entry.checkpoint_ns),
        "checkpoint_id": from_storage_safe_id(entry.checkpoint_id),
    }
    return {"configurable": place}


async def redis_saver(client: FencedRedis, *, prefix: str, ttl_s: int) -> CanvasSaver:
    """Make a saver.

    Raises:
        CheckpointError: if the server refuses the indexes.
    """
    saver = PagedRedisSaver(
        redis_client=client,
        ttl={"default_ttl": ttl_s / 60, "refresh_on_read": True},
        checkpoint_prefix=f"{prefix}{CHECKPOINTS}",
        checkpoint_write_prefix=f"{prefix}{WRITES}",
    )
    try:
        await saver.asetup()
    except RedisError as error:
        raise CheckpointError(f"The Redis server cannot hold sessions: {error}.") from error

    blobs = RedisBlobs(client, prefix, ttl_s)

    @asynccontextmanager
    async def writing(claim: FenceToken | None) -> AsyncGenerator[None]:
        if claim is None:
            yield
            return
        key = lease_key(prefix, session_of_thread(claim.thread))
        mark = _fence.set(_Fence(key, blobs.key(claim.thread), claim))
        try:
            yield
        finally:
            _fence.reset(mark)

    from redisvl.exceptions import RedisVLError

    return CanvasSaver(saver, blobs, errors=(RedisError, RedisVLError, OSError), lists_truly=False, writing=writing)
