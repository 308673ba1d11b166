"""Session stores of every kind, and helpers that write to them or reach behind their interface."""

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple, empty_checkpoint
from redis.asyncio import Redis

from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.records.leases import StoredLeases
from ragflow_lg.checkpoints.sql.sql_tables import SqlTables
from ragflow_lg.checkpoints.sql.sqlite_file import SqliteFile, open_memory
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.services.encryption import EncryptionKey

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the same store again and again, as processes would."""

METADATA: CheckpointMetadata = {"source": "loop", "step": 1}


SHARED = ("sqlite", "redis")
"""The kinds that processes can share. `tests.checkpoints` tries more."""
STORES = ("memory", *SHARED)


def store_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a store of the kind that is the parameter: of a file, or of the server of a fixture."""
    known = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/s.db"}
    return known.get(request.param) or request.getfixturevalue(f"{request.param}_url")


def store_opener(url: str, prefix: str = "", keys: Sequence[EncryptionKey] = ()) -> OpenStore:
    """Return a function that opens the store at a URL. A store in memory stays open until the process ends."""
    if url.startswith("memory"):
        return _memory_opener(keys)

    @asynccontextmanager
    async def open_again() -> AsyncGenerator[Store]:
        async with open_store(url, prefix=prefix, keys=keys) as store:
            yield store

    return open_again


def _memory_opener(keys: Sequence[EncryptionKey]) -> OpenStore:
    opened: list[tuple[AbstractAsyncContextManager[Store], Store]] = []

    @asynccontextmanager
    async def open_again() -> AsyncGenerator[Store]:
        if not opened:
            context = open_store("memory://", keys=keys)
            opened.append((context, await context.__aenter__()))  # the end of the event loop closes it
        yield opened[0][1]

    return open_again


def fresh_prefix() -> str:
    """Return a key prefix that no other test uses."""
    return f"{uuid.uuid4().hex}:"


def checkpoint_config(thread: str, namespace: str = "", checkpoint: str = "") -> RunnableConfig:
    """Return the config of a thread, or of one of its checkpoints."""
    place = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": place | ({"checkpoint_id": checkpoint} if checkpoint else {})}


def checkpoint_id(config: RunnableConfig) -> str:
    """Return the id of the checkpoint of a config."""
    return config.get("configurable", {})["checkpoint_id"]


async def put_checkpoint(
    saver: CanvasSaver,
    config: RunnableConfig,
    values: Mapping[str, Any] | None = None,
    metadata: CheckpointMetadata = METADATA,
) -> RunnableConfig:
    """Store a checkpoint with channel values, all of them new; return its config."""
    version: str = saver.get_next_version(None, None)
    versions: ChannelVersions = dict.fromkeys(values or {}, version)
    checkpoint: Checkpoint = {**empty_checkpoint(), "channel_values": dict(values or {}), "channel_versions": versions}
    return await saver.aput(config, checkpoint, metadata, versions)


async def put_outputs(store: Store, thread: str, outputs: Any) -> str:
    """Store a checkpoint with outputs; return its id."""
    return checkpoint_id(await put_checkpoint(store.saver, checkpoint_config(thread), {"outputs": outputs}))


async def read_checkpoint(store: Store, thread: str, checkpoint: str = "") -> CheckpointTuple:
    """Read a checkpoint of a thread; without an id, the newest one."""
    result = await store.saver.aget_tuple(checkpoint_config(thread, checkpoint=checkpoint))
    assert result is not None
    return result


def stored_leases(store: Store) -> StoredLeases:
    """Return the leases of a store with their table."""
    assert isinstance(store.leases, StoredLeases)
    return store.leases


def memory_saver() -> CanvasSaver:
    """Create a saver in memory."""
    return CanvasSaver(SqlTables(open_memory()))


def sqlite_file(store: Store) -> SqliteFile:
    """Return the file of a store in SQLite."""
    assert isinstance(store.saver.tables, SqlTables)
    assert isinstance(store.saver.tables.database, SqliteFile)
    return store.saver.tables.database


def redis_client(url: str) -> Redis:
    """Create a plain client of a Redis server."""
    return Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType] - redis-py does not annotate **kwargs


async def redis_keys(client: Redis, pattern: str) -> list[str]:
    """Return the keys that match a pattern, sorted."""
    untyped: Any = client  # redis-py does not annotate the keys
    return sorted([key.decode() async for key in untyped.scan_iter(pattern)])
