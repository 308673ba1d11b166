"""The backends, by URL scheme. CONTRIBUTING.md says how to add one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Literal, assert_never

from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
from ragflow_lg.services.sessions import Durability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.checkpoints.sql.sql_database import SqlDatabase
    from ragflow_lg.services.encryption import EncryptionKey

TTL_S = 30 * 24 * 3600
"""How long Redis keeps an unused session."""


@asynccontextmanager
async def open_store(
    url: str,
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
    ring = make_key_ring(keys)
    async with AsyncExitStack() as stack:
        kind = store_kind(url)
        if kind == "redis":
            require("redis", "A session store in Redis", CheckpointError)
            from ragflow_lg.checkpoints.redis.redis_store import open_redis_store

            store = await stack.enter_async_context(open_redis_store(url, prefix, ttl_s, ring))
        else:
            from ragflow_lg.checkpoints.sql.sql_store import open_sql_store

            database = await stack.enter_async_context(_open_database(kind, url, prefix))
            store = await stack.enter_async_context(open_sql_store(database, ring))
        yield replace(store, durability=durability)


@asynccontextmanager
async def _open_database(
    kind: Literal["memory", "sqlite", "postgresql"], url: str, prefix: str
) -> AsyncGenerator[SqlDatabase]:
    if kind == "postgresql":
        require("postgresql", "A session store in PostgreSQL", CheckpointError)
        from ragflow_lg.checkpoints.sql.postgresql_database import open_database

        async with open_database(url, prefix) as database:
            yield database
    elif kind == "sqlite" or kind == "memory":
        from ragflow_lg.checkpoints.sql.sqlite_file import open_memory, open_sqlite

        async with open_sqlite(sqlite_path(url)) if kind == "sqlite" else aclosing(open_memory()) as file:
            yield file
    else:
        assert_never(kind)


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
        from ragflow_lg.checkpoints.sql.postgresql_database import has_schema

        return await has_schema(url, prefix)
    if kind == "redis":
        require("redis", "A session store in Redis", CheckpointError)
        from ragflow_lg.checkpoints.redis.redis_store import has_redis_store

        return await has_redis_store(url, prefix)
    assert_never(kind)


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
        from ragflow_lg.checkpoints.sql.sqlite_probe import describe_missing_file, probe_sqlite

        path = sqlite_path(url)
        return [result async for result in probe_sqlite(path)] if path.exists() else describe_missing_file(path)
    if kind == "postgresql":
        try:
            exists = await store_exists(url)
        except CheckpointError as error:
            return [CheckResult(False, str(error), "Start the server, or correct the URL, user and password.")]
        return [CheckResult(True, f"the server answers, and {'has' if exists else 'will get'} the tables of sessions")]
    if kind == "redis":
        from ragflow_lg.checkpoints.redis.redis_probe import probe_redis

        return [result async for result in probe_redis(url, ttl_s)]
    assert_never(kind)
