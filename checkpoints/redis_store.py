"""Sessions in Redis (with JSON and search): LangGraph's saver over a client whose writes are fenced."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError, ResponseError

from checkpoints.redis_server import missing_modules
from checkpoints.redis_url import client_of
from checkpoints.saver import FENCED, CanvasSaver
from ragflow_lg.errors import CheckpointError
from ragflow_lg.ids import session_of_thread

__all__ = ["FencedRedis", "RedisBlobs", "lease_key", "open_redis", "redis_saver"]

CHECKPOINTS = "checkpoint"
WRITES = "checkpoint_write"
_PLAY = f"""
local held = redis.call('HGET', KEYS[1], 'token')
if held and held ~= ARGV[1] then return redis.error_reply('{FENCED}') end
local results, at = {{}}, 2
while at <= #ARGV do
    local count, command = tonumber(ARGV[at]), {{}}
    for i = 1, count do command[i] = ARGV[at + i] end
    local result = redis.pcall(unpack(command))
    results[#results + 1] = (type(result) == 'table' and result.err) and 'error ' .. result.err or 'ok'
    at = at + count + 1
end
return results
"""
"""Compares the fencing token and plays the commands of a pipeline: one step, so that nothing comes between."""

_fence: ContextVar[tuple[str, int] | None] = ContextVar("fence", default=None)


def lease_key(prefix: str, session: str) -> str:
    """Give the key of a session's lease."""
    return f"{prefix}agent:active-session:{session}"


class FencedPipeline(Pipeline):
    """A pipeline that plays its commands only while this process holds the session's lease."""

    owner: FencedRedis

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Play the commands; all or none of them, by the token."""
        fence, stack = _fence.get(), cast("list[Any]", self.command_stack)
        if fence is None or not stack:
            return await super().execute(raise_on_error)
        key, token = fence
        arguments: list[Any] = [token]
        for command, _ in stack:
            arguments += [len(command), *command]
        await self.reset()
        results = await cast("Any", self.owner).execute_command("EVAL", _PLAY, 1, key, *arguments)
        return [_result(entry, raise_on_error) for entry in results]


def _result(entry: Any, raise_on_error: bool) -> Any:
    text = entry.decode() if isinstance(entry, bytes) else str(entry)
    if text == "ok":
        return True
    error = ResponseError(text.removeprefix("error "))
    if raise_on_error:
        raise error
    return error


class FencedRedis(Redis):
    """A client whose pipelines are fenced."""

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

    async def put(self, thread: str, blobs: Mapping[str, bytes], *, now: bool = False) -> None:
        """Store texts, at once in any case."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hset(self._key(thread), mapping=dict(blobs))
        pipeline.expire(self._key(thread), self._ttl_s)
        await pipeline.execute()

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        texts: list[bytes | None] = await self._client.hmget(self._key(thread), list(digests))
        await self._client.expire(self._key(thread), self._ttl_s)
        return {digest: text for digest, text in zip(digests, texts, strict=True) if text is not None}

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread."""
        await self._client.delete(self._key(thread))

    def _key(self, thread: str) -> str:
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
    client = cast("FencedRedis", client_of(url, FencedRedis, Sentinel))
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


async def redis_saver(client: FencedRedis, held: Mapping[str, int], *, prefix: str, ttl_s: int) -> CanvasSaver:
    """Make a saver. ``held`` maps threads to the fencing tokens of the leases that this process has.

    Raises:
        CheckpointError: if the server refuses the indexes.
    """
    saver = AsyncRedisSaver(
        redis_client=client,
        ttl={"default_ttl": ttl_s / 60, "refresh_on_read": True},
        checkpoint_prefix=f"{prefix}{CHECKPOINTS}",
        checkpoint_write_prefix=f"{prefix}{WRITES}",
    )
    try:
        await saver.asetup()
    except RedisError as error:
        raise CheckpointError(f"The Redis server cannot hold sessions: {error}.") from error

    @contextmanager
    def fence(thread: str) -> Generator[None]:
        mark = _fence.set((lease_key(prefix, session_of_thread(thread)), held.get(thread, -1)))
        try:
            yield
        finally:
            _fence.reset(mark)

    from redisvl.exceptions import RedisVLError

    blobs = RedisBlobs(client, prefix, ttl_s)
    return CanvasSaver(saver, blobs, errors=(RedisError, RedisVLError, OSError), lists_truly=False, fence=fence)
