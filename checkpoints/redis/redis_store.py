"""The store in Redis."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ragflow_lg.checkpoints.leases import StoredLeases
from ragflow_lg.checkpoints.redis.redis_cancels import RedisCancels
from ragflow_lg.checkpoints.redis.redis_leases import RedisLeaseTable
from ragflow_lg.checkpoints.redis.redis_records import RedisRuns, RedisTraces
from ragflow_lg.checkpoints.redis.redis_saver import open_redis, redis_saver
from ragflow_lg.checkpoints.store import Store


@asynccontextmanager
async def open_redis_store(url: str, prefix: str, ttl_s: int) -> AsyncGenerator[Store]:
    """Open a client and its store.

    Raises:
        CheckpointError: if the server does not respond or lacks a module.
    """
    async with open_redis(url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=ttl_s)
        leases = StoredLeases(RedisLeaseTable(client, prefix))
        try:
            runs, traces = RedisRuns(client, prefix, ttl_s), RedisTraces(client, prefix)
            yield Store(saver, leases, runs, RedisCancels(client, prefix), traces)
        finally:
            await leases.settle()
