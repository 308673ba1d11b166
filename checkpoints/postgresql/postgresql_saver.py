"""Checkpoints in PostgreSQL: LangGraph's saver, whose writes run in transactions with preconditions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import Error

from ragflow_lg.checkpoints.postgresql.postgresql_database import PostgresqlDatabase
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, key_config

_OF_KEYS = "(thread_id, checkpoint_ns, checkpoint_id) IN (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))"


class PostgresqlSaver(BaseCheckpointSaver[Any]):
    """LangGraph's saver on the connection of the open transaction, which can also list and erase checkpoints."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        super().__init__(serde=PlainSerializer())
        self._database = database

    @asynccontextmanager
    async def _saver(self) -> AsyncGenerator[AsyncPostgresSaver]:
        async with self._database.connection() as connection:
            yield AsyncPostgresSaver(connection, serde=self.serde)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Its metadata are complete: the config adds nothing to them."""
        async with self._saver() as saver:
            return await saver.aput(key_config(checkpoint_key(config)), checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes."""
        async with self._saver() as saver:
            await saver.aput_writes(key_config(checkpoint_key(config)), writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes."""
        async with self._saver() as saver:
            return await saver.aget_tuple(key_config(checkpoint_key(config)))

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first."""
        query = (
            "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE (%s::text IS NULL OR thread_id = %s)"
            " AND (%s::text IS NULL OR checkpoint_ns = %s) AND (%s = '' OR checkpoint_id < %s)"
            " ORDER BY checkpoint_id DESC LIMIT %s"
        )
        for row in await self._database.rows(query, thread, thread, namespace, namespace, before, before, limit):
            yield CheckpointKey(*row)

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        query = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE metadata->>'run_id' = ANY(%s)"
        return [CheckpointKey(*row) for row in await self._database.rows(query, list(runs))]

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes, in the open transaction if any."""
        for table in ("checkpoint_writes", "checkpoints"):
            await self._database.rows(f"DELETE FROM {table} WHERE {_OF_KEYS}", *_columns(keys))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread."""
        async with self._saver() as saver:
            await saver.adelete_thread(thread_id)
        await self._database.rows("DELETE FROM session_parts WHERE thread_id = %s", thread_id)

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the size of checkpoints and their pending writes."""
        size = 0
        for table in ("checkpoints", "checkpoint_writes"):
            query = f"SELECT coalesce(sum(pg_column_size({table}.*)), 0) FROM {table} WHERE {_OF_KEYS}"
            size += int((await self._database.rows(query, *_columns(keys)))[0][0])
        return size

    async def release_space(self) -> None:
        """Do nothing: PostgreSQL uses free space again."""


def _columns(keys: Sequence[CheckpointKey]) -> list[list[str]]:
    return [[key[column] for key in keys] for column in range(3)]


class PostgresqlBlobs:
    """Blobs in the table ``session_parts``."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs in the open transaction."""
        query = "INSERT INTO session_parts SELECT %s, * FROM unnest(%s::text[], %s::bytea[]) ON CONFLICT DO NOTHING"
        await self._database.rows(query, thread, list(blobs), list(blobs.values()))

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        query = "SELECT name, content FROM session_parts WHERE thread_id = %s AND name = ANY(%s)"
        return dict(await self._database.rows(query, thread, list(digests)))

    async def names(self, thread: str) -> list[str]:
        """Return the names of all of a thread's blobs."""
        rows = await self._database.rows("SELECT name FROM session_parts WHERE thread_id = %s", thread)
        return [name for (name,) in rows]

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the size of blobs."""
        query = "SELECT coalesce(sum(pg_column_size(content)), 0) FROM session_parts"
        rows = await self._database.rows(f"{query} WHERE thread_id = %s AND name = ANY(%s)", thread, list(names))
        return int(rows[0][0])

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs in the open transaction."""
        query = "DELETE FROM session_parts WHERE thread_id = %s AND name = ANY(%s)"
        await self._database.rows(query, thread, list(names))


def postgresql_saver(database: PostgresqlDatabase) -> CanvasSaver:
    """Create a saver."""
    saver, blobs = PostgresqlSaver(database), PostgresqlBlobs(database)
    return CanvasSaver(saver, blobs, errors=(Error, OSError), transaction=database.transaction)
