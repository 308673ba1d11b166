"""The store in Redis."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from redis.exceptions import RedisError

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.leases import StoredLeases
from ragflow_lg.checkpoints.redis.redis_cancels import RedisCancels
from ragflow_lg.checkpoints.redis.redis_client import open_redis, scripts_together
from ragflow_lg.checkpoints.redis.redis_leases import RedisLeaseTable
from ragflow_lg.checkpoints.redis.redis_records import RedisRuns, RedisTraces
from ragflow_lg.checkpoints.redis.redis_saver import RedisSaver, redis_saver
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.checkpoints.store_url import cluster_name, key_prefix

LEASE_CONNECTIONS = 4
"""Leases have connections of their own: if renewals waited for the writes of many runs, leases would expire."""


@asynccontextmanager
async def open_redis_store(url: str, prefix: str, ttl_s: int) -> AsyncGenerator[Store]:
    """Open a client and its store.

    Raises:
        CheckpointError: if the server does not respond or lacks a module.
    """
    prefix, is_cluster = key_prefix(url, prefix), bool(cluster_name(url))
    async with open_redis(url) as client, open_redis(url, LEASE_CONNECTIONS) as lease_client:
        sessions = RedisSessions(client, prefix, ttl_s)
        saver = await redis_saver(client, sessions, prefix, has_one_slot=is_cluster)
        read_command = cast("RedisSaver", saver.inner).read_command
        table = RedisLeaseTable(lease_client, sessions, prefix, has_one_slot=is_cluster, read_command=read_command)
        leases = StoredLeases(table)
        cancels = RedisCancels(client, prefix, has_one_slot=is_cluster)

        @asynccontextmanager
        async def together() -> AsyncGenerator[None]:
            with translate_errors(RedisError, OSError):
                async with scripts_together(client):
                    yield

        try:
            traces, node_logs = RedisTraces(client, prefix), RedisTraces(client, prefix, "nodes")
            runs = RedisRuns(client, sessions, prefix)
            yield Store(saver, leases, runs, cancels, traces, node_logs, together=together)
        finally:
            await cancels.aclose()
            await leases.settle()
