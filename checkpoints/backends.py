"""The backends, by URL scheme. To add one, write a folder (or module), a scheme in `store_url` and a case here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
from ragflow_lg.services.sessions import Durability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.services.encryption import EncryptionKey
    from ragflow_lg.services.services import Clock

TTL_S = 30 * 24 * 3600
"""How long Redis keeps an unused session."""


@asynccontextmanager
async def open_store(
    url: str,
    clock: Clock,
    *,
    prefix: str = "",
    ttl_s: int = TTL_S,
    durability: Durability = "effects",
    keys: Sequence[EncryptionKey] = (),
) -> AsyncGenerator[Store]:
    """Open the store at a URL and close it on exit.

    A ``memory://`` store ends with the process. ``sqlite:///PATH`` is a file that only its owner can read.
    ``postgresql://HOST/DATABASE`` is a schema in a database.
    ``redis://``, ``rediss://``, ``redis+sentinel://`` and ``redis+cluster://`` are servers. ``prefix`` separates
    deployments that share a server. Stored data is never deserialized into objects. With ``keys``, it is encrypted with
    the first one; the others only decrypt.

    Raises:
        CheckpointError: if the scheme is unknown or the store cannot be opened.
    """
    async with _open_plain_store(url, clock, prefix, ttl_s) as store:
        if keys:
            from ragflow_lg.checkpoints.encryption.saver_encryption import encrypted_store

            store = encrypted_store(store, keys)
        yield replace(store, durability=durability)


@asynccontextmanager
async def _open_plain_store(url: str, clock: Clock, prefix: str, ttl_s: int) -> AsyncGenerator[Store]:
    kind = store_kind(url)
    if kind == "memory":
        from ragflow_lg.checkpoints.memory.memory_store import memory_store

        yield memory_store()
    elif kind == "sqlite":
        from ragflow_lg.checkpoints.sqlite.sqlite_store import open_sqlite_store

        async with open_sqlite_store(sqlite_path(url), clock) as store:
            yield store
    elif kind == "postgresql":
        require("postgresql", "A session store in PostgreSQL", CheckpointError)
        from ragflow_lg.checkpoints.postgresql.postgresql_store import open_postgresql_store

        async with open_postgresql_store(url, prefix) as store:
            yield store
    else:
        require("redis", "A session store in Redis", CheckpointError)
        from ragflow_lg.checkpoints.redis.redis_store import open_redis_store

        async with open_redis_store(url, prefix, ttl_s) as store:
            yield store


async def store_exists(url: str, *, prefix: str = "") -> bool:
    """Return whether there is a store at a URL. Nothing is created.

    Raises:
        CheckpointError: if the scheme is unknown or the server cannot be reached.
    """
    kind = store_kind(url)
    if kind == "sqlite":
        return sqlite_path(url).exists()
    if kind == "memory":
        return True
    if kind == "postgresql":
        require("postgresql", "A session store in PostgreSQL", CheckpointError)
        from ragflow_lg.checkpoints.postgresql.postgresql_database import has_schema

        return await has_schema(url, prefix)
    require("redis", "A session store in Redis", CheckpointError)
    from ragflow_lg.checkpoints.redis.redis_store import has_redis_store

    return await has_redis_store(url, prefix)


async def probe_store(url: str, *, ttl_s: int) -> list[CheckResult]:
    """Check the store at a URL. If it cannot be reached, no further checks follow."""
    try:
        kind = store_kind(url)
    except CheckpointError as error:
        text, _, advice = str(error).partition(": ")
        return [CheckResult(False, text, advice[:1].upper() + advice[1:])]
    if kind == "memory":
        advice = "Sessions are lost when the process ends; use sqlite:/// or redis:// to keep them."
        return [CheckResult(True, "sessions are stored in memory", advice)]
    if kind == "sqlite":
        from ragflow_lg.checkpoints.sqlite.sqlite_probe import describe_missing_file, probe_sqlite

        path = sqlite_path(url)
        return [result async for result in probe_sqlite(path)] if path.exists() else describe_missing_file(path)
    if kind == "postgresql":
        try:
            exists = await store_exists(url)
        except CheckpointError as error:
            return [CheckResult(False, str(error), "Start the server, or correct the URL, user and password.")]
        return [CheckResult(True, f"the server answers, and {'has' if exists else 'will get'} the tables of sessions")]
    from ragflow_lg.checkpoints.redis.redis_probe import probe_redis

    return [result async for result in probe_redis(url, ttl_s)]
