"""From the URL of the session store to a journal beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.store_url import store_kind
from ragflow_lg.server.streaming.event_window import Bounds
from ragflow_lg.server.streaming.journal import KEPT_S, MAX_RUN, Journal
from ragflow_lg.server.streaming.memory_journal import MemoryJournal

__all__ = ["ALIVE_S", "open_journal"]

TIMEOUT_S = 3.0
"""How long Redis may take to answer: longer than the journal lets it hold an answer back."""
ALIVE_S = 15.0


@asynccontextmanager
async def open_journal(
    url: str, *, prefix: str = "", max_run: Bounds = MAX_RUN, kept_s: float = KEPT_S, alive_s: float = ALIVE_S
) -> AsyncGenerator[Journal]:
    """Open a journal: in the Redis that a URL names, for all replicas, else in this process's memory.

    ``prefix`` keeps deployments on one server apart; ``max_run`` is what is kept of one run at most, ``kept_s`` for how
    long behind its end; ``alive_s`` for how long a replica that is not heard of counts as alive.

    Raises:
        CheckpointError: if the URL names no store.
        StreamError: if the extra for Redis is not installed.
    """
    if store_kind(url) != "redis":
        journal: Journal = MemoryJournal(max_run, kept_s=kept_s, quiet_s=alive_s / 3)
        try:
            yield journal
        finally:
            await journal.aclose()
        return
    require("redis", "An event journal in Redis", StreamError)
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.asyncio.sentinel import Sentinel
    from redis.backoff import NoBackoff

    from ragflow_lg.checkpoints.redis.redis_url import create_client
    from ragflow_lg.server.streaming.redis_journal import RedisJournal

    # The journal itself tries again, for longer, and knows what may be repeated.
    retry = Retry(NoBackoff(), 0)
    client = create_client(
        url, Redis, Sentinel, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=retry
    )
    async with client:
        journal = RedisJournal(client, prefix, max_run, kept_s=kept_s, alive_s=alive_s, quiet_s=alive_s / 3)
        try:
            yield journal
        finally:
            await journal.aclose()
