"""Checkpoints in an SQLite file: LangGraph's saver in the file's thread. Several processes may use one file."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.fence_token import EPOCH, FENCED, NO_LEASE, RENEWED, FenceToken
from ragflow_lg.checkpoints.pruning import Place
from ragflow_lg.checkpoints.saver import CanvasSaver
from ragflow_lg.checkpoints.serializer import plain_serializer
from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

__all__ = ["FileSaver", "SqliteBlobs", "Transactions", "sqlite_saver"]

_FENCE = f"""
CREATE TEMP TRIGGER IF NOT EXISTS fence_{{table}} BEFORE INSERT ON main.{{table}} {{when}}
BEGIN
    SELECT RAISE(ABORT, '{FENCED}') WHERE claimed_token() IS NOT coalesce(
        (SELECT token FROM main.leases WHERE thread_id = NEW.thread_id AND owner <> ''), {NO_LEASE});
    SELECT RAISE(ABORT, '{RENEWED}') WHERE claimed_epoch() IS NOT
        (SELECT CAST(text AS TEXT) FROM main.blobs WHERE thread_id = NEW.thread_id AND hash = '{EPOCH}');
END;
"""
"""Refuses a write within the transaction that would do it."""
_FENCED_TABLES = {"checkpoints": "", "writes": "", "blobs": f"WHEN NEW.hash <> '{EPOCH}'"}

_PUT_BLOB = "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)"
_FIND_EPOCH = "SELECT text FROM blobs WHERE thread_id = ? AND hash = ?"
_MAKE_EPOCH = "INSERT INTO blobs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET text = text RETURNING text"
"""Gives the mark that is there, too: in one step, for others may make or delete it at the same time."""

_Work = Callable[[], object]

_open: ContextVar[list[_Work] | None] = ContextVar("transaction", default=None)
"""What the transaction that is open is to do."""


_OF_RUNS = """
SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE json_valid(CAST(metadata AS TEXT))
AND json_extract(CAST(metadata AS TEXT), '$.run_id') IN (SELECT value FROM json_each(?))
"""
_ERASE = "DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"


class Transactions:
    """Makes what belongs together one transaction: gathered first, then done in one trip to the file's thread."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._claim: FenceToken | None = None

    @asynccontextmanager
    async def begin(self, claim: FenceToken | None) -> AsyncGenerator[None]:
        """Do at the end what was given inside, or nothing of it."""
        given: list[_Work] = []
        mark = _open.set(given)
        try:
            yield
        finally:
            _open.reset(mark)
        await self._file.do(lambda: self._play(claim, given))

    async def add(self, work: _Work) -> None:
        """Give work to the transaction that is open; without one it is done now, in its own."""
        given = _open.get()
        if given is None:
            await self._file.do(lambda: self._play(None, [work]))
        else:
            given.append(work)

    def token(self) -> int:
        """Give the token of the open transaction's claim."""
        return self._claim.token if self._claim else NO_LEASE

    def epoch(self) -> str:
        """Give the epoch of the open transaction's claim."""
        return self._claim.epoch if self._claim else ""

    def _play(self, claim: FenceToken | None, given: Sequence[_Work]) -> None:
        self._claim = claim
        connection = self._file.connection
        connection.execute("BEGIN IMMEDIATE")  # one that begins with reading is refused once somebody else has written
        try:
            for work in given:
                work()
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


class SqliteBlobs:
    """Blobs in a table."""

    def __init__(self, file: SqliteFile, transactions: Transactions) -> None:
        self._file = file
        self._transactions = transactions

    async def epoch(self, thread: str) -> str:
        """Give the mark of a thread, made if there is none."""
        connection = self._file.connection

        def made() -> str:
            found = connection.execute(_FIND_EPOCH, (thread, EPOCH)).fetchone()
            if found is None:
                new = (thread, EPOCH, secrets.token_hex(8).encode())
                (found,) = connection.execute(_MAKE_EPOCH, new).fetchall()
            if not isinstance(found[0], bytes) or not found[0].isalnum():
                raise sqlite3.DatabaseError("its mark is damaged")
            return found[0].decode()

        return await self._file.do(made)

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store texts in the transaction that is open, or a new one."""
        rows = [(thread, digest, text) for digest, text in blobs.items()]
        await self._transactions.add(lambda: self._file.connection.executemany(_PUT_BLOB, rows))

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Give the texts that are there."""
        found: dict[str, bytes] = {}
        for at in range(0, len(digests), 500):
            some = digests[at : at + 500]
            places = ", ".join("?" * len(some))
            query = f"SELECT hash, text FROM blobs WHERE thread_id = ? AND hash IN ({places})"
            found.update(await self._file.rows(query, (thread, *some)))
        return found

    async def delete(self, thread: str) -> None:
        """Delete all texts of a thread, in the transaction that is open, or a new one."""
        delete = "DELETE FROM blobs WHERE thread_id = ?"
        await self._transactions.add(lambda: self._file.connection.execute(delete, (thread,)))


class FileSaver(SqliteSaver):
    """LangGraph's saver. It works in the file's thread, and what it writes in the transaction that is open."""

    def __init__(self, file: SqliteFile, transactions: Transactions) -> None:
        super().__init__(file.connection, serde=plain_serializer())
        self._file = file
        self._transactions = transactions

    @contextmanager
    def cursor(self, transaction: bool = True) -> Generator[sqlite3.Cursor]:
        """Give a cursor; the transaction is not its own."""
        cursor = self.conn.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Give a checkpoint with its pending writes."""
        return await self._file.do(lambda: self.get_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Go through checkpoints, newest first."""
        for found in await self._file.do(lambda: list(self.list(config, filter=filter, before=before, limit=limit))):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint."""
        await self._transactions.add(lambda: self.put(config, checkpoint, metadata, new_versions))
        own: Any = config.get("configurable", {})
        place = {"thread_id": own["thread_id"], "checkpoint_ns": own["checkpoint_ns"]}
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written."""
        await self._transactions.add(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        await self._transactions.add(lambda: self.delete_thread(thread_id))

    async def places_of_runs(self, runs: Collection[str]) -> list[Place]:
        """Give the checkpoints that runs have stored."""
        wanted = (json.dumps(list(runs)),)
        rows = await self._file.do(lambda: self._file.connection.execute(_OF_RUNS, wanted).fetchall())
        return [Place(*row) for row in rows]

    async def erase(self, places: Sequence[Place]) -> None:
        """Delete checkpoints and what was written to them."""
        for table in ("checkpoints", "writes"):
            await self._transactions.add(
                lambda table=table: self._file.connection.executemany(_ERASE.format(table=table), places)
            )


async def sqlite_saver(file: SqliteFile) -> CanvasSaver:
    """Make a saver.

    A write to a thread that somebody else has leased fails in the transaction that would do it.

    Raises:
        CheckpointError: if the file is no session store.
    """
    transactions = Transactions(file)
    saver = FileSaver(file, transactions)

    def prepare() -> None:
        connection = file.connection
        saver.setup()
        connection.execute("SELECT thread_id, checkpoint_ns, checkpoint_id, checkpoint FROM checkpoints LIMIT 0")
        connection.create_function("claimed_token", 0, transactions.token)
        connection.create_function("claimed_epoch", 0, transactions.epoch)
        for table, when in _FENCED_TABLES.items():
            connection.executescript(_FENCE.format(table=table, when=when))

    try:
        await file.do(prepare)
    except sqlite3.Error as error:
        raise CheckpointError(f"The file is no session store: {error}.") from error
    return CanvasSaver(saver, SqliteBlobs(file, transactions), errors=(sqlite3.Error,), writing=transactions.begin)
