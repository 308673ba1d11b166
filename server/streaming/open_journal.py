"""Opens the journal at a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.key_ring import KeyRing
from ragflow_lg.checkpoints.store_url import key_prefix, store_kind
from ragflow_lg.server.streaming.journal import RETENTION_S, Journal
from ragflow_lg.server.streaming.memory_journal import MemoryJournal

TIMEOUT_S = 3.0
"""Timeout for one Redis command; longer than the journal's own blocking reads."""
ALIVE_S = 3.0
MAX_CONNECTIONS = 16


@asynccontextmanager
async def open_journal(
    url: str,
    *,
    prefix: str = "",
    retention_s: float = RETENTION_S,
    alive_s: float = ALIVE_S,
    keys: KeyRing | None = None,
) -> AsyncGenerator[Journal]:
    """Open a journal: for a Redis URL in Redis, shared by all replicas; otherwise in this process's memory.

    Args:
        url: URL of the session store or the journal.
        prefix: Prefix for all keys, to separate deployments on one Redis server.
        retention_s: How long a finished run's events are stored.
        alive_s: How long a replica is considered alive after its last report.
        keys: Encrypts the events in Redis.

    Raises:
        CheckpointError: If the URL is not a store URL.
        StreamError: If the Redis extra is not installed.
    """
    if store_kind(url) != "redis":
        journal: Journal = MemoryJournal(retention_s=retention_s)
        try:
            yield journal
        finally:
            await journal.aclose()
        return
    require("redis", "An event journal in Redis", StreamError)
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    from ragflow_lg.checkpoints.redis.managed_connections import ManagedPool, WaitingPool
    from ragflow_lg.checkpoints.redis.redis_url import Pools, create_client
    from ragflow_lg.server.streaming.redis_journal import RedisJournal

    # The journal itself retries: it waits longer and knows which commands may be repeated.
    retry = Retry(NoBackoff(), 0)
    pools = Pools(WaitingPool, ManagedPool, {"max_connections": MAX_CONNECTIONS, "timeout": None})
    client = create_client(url, pools, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=retry)
    prefix = key_prefix(url, prefix)
    async with client:
        journal = RedisJournal(client, prefix, retention_s=retention_s, alive_s=alive_s, keys=keys)
        try:
            yield journal
        finally:
            await journal.aclose()
