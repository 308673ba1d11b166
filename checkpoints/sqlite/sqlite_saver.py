"""Checkpoints in an SQLite file: LangGraph's saver on the file's thread. Several processes can share a file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile, unusable_file
from ragflow_lg.checkpoints.sqlite.sqlite_transactions import Transactions
from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key, key_config

_Row: TypeAlias = tuple[Any, ...]

_PUT_BLOB = "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)"
_PUT_CHECKPOINT = (
    "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
    " checkpoint, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_PUT_WRITE = (
    "INSERT OR {} INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_WRITE, _REPLACE_WRITE = _PUT_WRITE.format("IGNORE"), _PUT_WRITE.format("REPLACE")
_BLOB_BYTES = (
    "SELECT ifnull(sum(length(text)), 0) FROM blobs WHERE thread_id = ? AND hash IN (SELECT value FROM json_each(?))"
)
_ERASE_BLOB = "DELETE FROM blobs WHERE thread_id = ? AND hash = ?"

PAGE = 1000
"""Number of keys per page of a listing."""

_OF_RUNS = """
SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE json_valid(CAST(metadata AS TEXT))
AND json_extract(CAST(metadata AS TEXT), '$.run_id') IN (SELECT value FROM json_each(?))
"""
_ORDER = ("checkpoint_id", "thread_id", "checkpoint_ns")
_WITH_KEYS = (
    "{table}, json_each(?) AS wanted WHERE thread_id = json_extract(wanted.value, '$[0]')"
    " AND checkpoint_ns = json_extract(wanted.value, '$[1]') AND checkpoint_id = json_extract(wanted.value, '$[2]')"
)
_SIZES = (
    "SELECT ifnull(sum(length(checkpoint) + length(metadata)), 0) FROM " + _WITH_KEYS.format(table="checkpoints"),
    "SELECT ifnull(sum(ifnull(length(writes.value), 0)), 0) FROM " + _WITH_KEYS.format(table="writes"),
)
_ERASE = "DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"


class SqliteBlobs:
    """Blobs in the ``blobs`` table."""

    def __init__(self, file: SqliteFile, transactions: Transactions) -> None:
        self._file = file
        self._transactions = transactions

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs in the open transaction, or in a new one."""
        rows = [(thread, *blob) for blob in blobs.items()]
        await self._transactions.add(lambda: self._file.connection.executemany(_PUT_BLOB, rows))

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        blobs: dict[str, bytes] = {}
        for start in range(0, len(digests), 500):
            chunk = digests[start : start + 500]
            places = ", ".join("?" * len(chunk))
            query = f"SELECT hash, text FROM blobs WHERE thread_id = ? AND hash IN ({places})"
            blobs.update(await self._file.rows(query, (thread, *chunk)))
        return blobs

    async def names(self, thread: str) -> list[str]:
        """Return the names of all of a thread's blobs."""
        return [row[0] for row in await self._file.rows("SELECT hash FROM blobs WHERE thread_id = ?", (thread,))]

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the size of blobs."""
        rows = await self._file.rows(_BLOB_BYTES, (thread, json.dumps(list(names))))
        return int(rows[0][0])

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs in the open transaction, or in a new one."""
        rows = [(thread, name) for name in names]
        await self._transactions.add(lambda: self._file.connection.executemany(_ERASE_BLOB, rows))


class SqliteFileSaver(SqliteSaver):
    """LangGraph's saver, which works on the file's thread and writes in the open transaction."""

    def __init__(self, file: SqliteFile, transactions: Transactions) -> None:
        super().__init__(file.connection, serde=PlainSerializer())
        self._file = file
        self._transactions = transactions

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:
        """Yield a cursor without opening a transaction, since `Transactions` does that."""
        cursor = self.conn.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its pending writes."""
        return await self._file.do(lambda: self.get_tuple(config))

    async def list_keys(
        self, thread: str | None, namespace: str | None = None, *, before: str = "", limit: int | None = None
    ) -> AsyncIterator[CheckpointKey]:
        """Yield the keys of checkpoints, newest first. They are read in pages, so that no statement takes long."""
        last, remaining = (before,), limit
        while remaining is None or remaining > 0:
            size = PAGE if remaining is None else min(PAGE, remaining)
            page = [CheckpointKey(*row) for row in await self._file.rows(*_keys_query(thread, namespace, last, size))]
            for key in page:
                yield key
            if len(page) < size:
                return
            remaining = None if remaining is None else remaining - size
            last = (page[-1].checkpoint, page[-1].thread, page[-1].namespace)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        key = checkpoint_key(config)

        def put() -> None:
            texts = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "ignore")
            stored = self.serde.dumps_typed(checkpoint)
            row = (key.thread, key.namespace, checkpoint["id"], key.checkpoint or None, *stored, texts)
            self.conn.execute(_PUT_CHECKPOINT, row)

        await self._transactions.add(put)
        return key_config(key._replace(checkpoint=checkpoint["id"]))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes."""
        place = (*checkpoint_key(config), task_id, task_path)
        are_reserved = all(channel in WRITES_IDX_MAP for channel, _ in writes)

        def put() -> None:
            rows = [
                (*place, WRITES_IDX_MAP.get(channel, number), channel, *self.serde.dumps_typed(value))
                for number, (channel, value) in enumerate(writes)
            ]
            self.conn.executemany(_REPLACE_WRITE if are_reserved else _ADD_WRITE, rows)

        await self._transactions.add(put)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything that belongs to a thread, and return its space to the file system."""

        def delete() -> None:
            self.delete_thread(thread_id)
            self.conn.execute("DELETE FROM blobs WHERE thread_id = ?", (thread_id,))

        await self._transactions.add(delete)
        await self.release_space()

    async def release_space(self) -> None:
        """Return free pages to the file system."""
        # `execute` would free one page only. The file itself shrinks when the log is written to it.
        await self._file.do(lambda: self.conn.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint"))

    async def keys_of_runs(self, runs: Collection[str]) -> list[CheckpointKey]:
        """Return the keys of the checkpoints that the runs have stored."""
        values = (json.dumps(list(runs)),)
        rows = await self._file.do(lambda: self._file.connection.execute(_OF_RUNS, values).fetchall())
        return [CheckpointKey(*row) for row in rows]

    async def stored_bytes(self, keys: Sequence[CheckpointKey]) -> int:
        """Return the size of checkpoints and their pending writes."""
        size = 0
        for start in range(0, len(keys), PAGE):
            values = (json.dumps([list(key) for key in keys[start : start + PAGE]]),)
            size += sum([row[0] for query in _SIZES for row in await self._file.rows(query, values)])
        return size

    async def erase(self, keys: Sequence[CheckpointKey]) -> None:
        """Delete checkpoints and their pending writes."""
        for table in ("checkpoints", "writes"):
            await self._transactions.add(
                lambda table=table: self._file.connection.executemany(_ERASE.format(table=table), keys)
            )


def _keys_query(
    thread: str | None, namespace: str | None, last: tuple[str, ...], limit: int
) -> tuple[str, list[str | int]]:
    """Return the statement for a page of keys, with its values. ``last`` contains the start of the last key.

    Ids are unique only within a thread, so that a page of all threads can end between two checkpoints with one id.
    """
    wanted = {"thread_id": thread, "checkpoint_ns": namespace}
    conditions: dict[str, list[str]] = {f"{name} = ?": [value] for name, value in wanted.items() if value is not None}
    if last[0]:
        places = ", ".join("?" * len(last))
        conditions[f"({', '.join(_ORDER[: len(last)])}) < ({places})"] = list(last)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(f"{column} DESC" for column in _ORDER)
    query = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {where} ORDER BY {order} LIMIT ?"
    return query, [value for values in conditions.values() for value in values] + [limit]


async def sqlite_saver(file: SqliteFile) -> CanvasSaver:
    """Create a saver on an open file.

    Raises:
        CheckpointError: if the file is not a session store.
    """
    transactions = Transactions(file)
    saver = SqliteFileSaver(file, transactions)

    def prepare() -> None:
        connection = file.connection
        saver.setup()
        connection.execute("SELECT thread_id, checkpoint_ns, checkpoint_id, checkpoint FROM checkpoints LIMIT 0")

    try:
        await file.do(prepare)
    except sqlite3.Error as error:
        raise unusable_file(file.path, error) from error
    return CanvasSaver(saver, SqliteBlobs(file, transactions), errors=(sqlite3.Error,), transaction=transactions.begin)
