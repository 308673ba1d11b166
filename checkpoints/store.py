"""From a URL to the place where sessions live."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.saver import CanvasSaver
from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
from ragflow_lg.services.sessions import Cancels, Leases, Runs, Traces, hold_lease

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from ragflow_lg.services.services import Clock

__all__ = ["Store", "open_store"]

TTL_S = 30 * 24 * 3600
"""How long Redis keeps a session that nobody touches."""


class Store(Struct, frozen=True):
    """Everything about sessions, in one place."""

    saver: CanvasSaver
    leases: Leases
    runs: Runs
    cancels: Cancels
    traces: Traces

    async def newest_checkpoint(self, config: RunnableConfig) -> str:
        """Give the id of the newest checkpoint of a thread, ``""`` if it has none.

        Raises:
            CheckpointError: if the store fails.
        """
        return await self.saver.newest(config)

    async def delete_session(self, session: str) -> None:
        """Delete checkpoints and records of a session.

        Raises:
            ConflictError: if it is being run.
        """
        async with hold_lease(self.leases, session):
            await self.saver.adelete_thread(thread_of_session(session))
            await self.traces.delete_session(session)
            await self.runs.delete_session(session)


@asynccontextmanager
async def open_store(url: str, clock: Clock, *, prefix: str = "", ttl_s: int = TTL_S) -> AsyncGenerator[Store]:
    """Open the store that a URL names, and close it again.

    ``memory://`` forgets with the process; ``sqlite:///PATH`` is a file that only its owner may read; ``redis://``,
    ``rediss://`` and ``redis+sentinel://`` are servers with JSON and search. ``prefix`` keeps deployments on one server
    apart. Nothing that is read is revived as an object.

    Raises:
        CheckpointError: for an unknown scheme, or a store that cannot be opened.
    """
    kind = store_kind(url)
    if kind == "memory":
        yield _memory()
    elif kind == "sqlite":
        async with _sqlite(sqlite_path(url), clock) as store:
            yield store
    else:
        async with _redis(url, prefix, ttl_s) as store:
            yield store


def _memory() -> Store:
    from ragflow_lg.checkpoints.cancels import MemoryCancels
    from ragflow_lg.checkpoints.leases import MemoryTable, StoredLeases
    from ragflow_lg.checkpoints.memory import memory_saver
    from ragflow_lg.checkpoints.run_records import MemoryRuns
    from ragflow_lg.checkpoints.traces import MemoryTraces

    return Store(memory_saver(), StoredLeases(MemoryTable()), MemoryRuns(), MemoryCancels(), MemoryTraces())


@asynccontextmanager
async def _sqlite(path: Path, clock: Clock) -> AsyncGenerator[Store]:
    from ragflow_lg.checkpoints.cancels import SqliteCancels
    from ragflow_lg.checkpoints.leases import SqliteTable, StoredLeases
    from ragflow_lg.checkpoints.run_records import SqliteRuns
    from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
    from ragflow_lg.checkpoints.sqlite.sqlite_saver import sqlite_saver
    from ragflow_lg.checkpoints.traces import SqliteTraces

    async with AsyncExitStack() as opened:
        saving = await opened.enter_async_context(open_sqlite(path))
        # Leases and flags must not wait for the saver. When the machine stops, so do all who could hold a lease.
        beside = await opened.enter_async_context(open_sqlite(path, survives_power_loss=False))
        saver = await sqlite_saver(saving)
        leases = StoredLeases(SqliteTable(beside, clock, path))
        opened.push_async_callback(leases.settle)
        yield Store(saver, leases, SqliteRuns(beside), SqliteCancels(beside), SqliteTraces(beside))


@asynccontextmanager
async def _redis(url: str, prefix: str, ttl_s: int) -> AsyncGenerator[Store]:
    require("redis", "A session store in Redis", CheckpointError)
    from ragflow_lg.checkpoints.leases import StoredLeases
    from ragflow_lg.checkpoints.redis.redis_cancels import RedisCancels
    from ragflow_lg.checkpoints.redis.redis_leases import RedisTable
    from ragflow_lg.checkpoints.redis.redis_runs import RedisRuns
    from ragflow_lg.checkpoints.redis.redis_saver import open_redis, redis_saver
    from ragflow_lg.checkpoints.redis.redis_traces import RedisTraces

    async with open_redis(url) as client:
        saver = await redis_saver(client, prefix=prefix, ttl_s=ttl_s)
        leases = StoredLeases(RedisTable(client, prefix))
        try:
            runs, traces = RedisRuns(client, prefix, ttl_s), RedisTraces(client, prefix)
            yield Store(saver, leases, runs, RedisCancels(client, prefix), traces)
        finally:
            await leases.settle()
