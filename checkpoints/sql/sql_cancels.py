"""Requests to cancel, in a table."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.checkpoints.memory.memory_store import CancelWatch, MemoryCancels
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sql.sql_records import SqlTables, marks

POLL_S = 0.2


class SqlCancels:
    """Flags in a table. A single poll every 0.2 s serves all sessions in this process."""

    def __init__(self, tables: SqlTables) -> None:
        self._tables = tables
        self._local = MemoryCancels()
        self._watched: Counter[str] = Counter()
        self._polling = SharedTask(self._poll)

    async def request(self, session: str) -> None:
        """Set the flag; a runner in this process stops immediately."""
        await self._tables.write(("INSERT INTO cancels VALUES (?) ON CONFLICT DO NOTHING", (hex_session(session),)))
        await self._local.request(session)

    async def is_requested(self, session: str) -> bool:
        """Return whether the flag is set."""
        return bool(await self._flagged([hex_session(session)]))

    def watch(self, session: str, on_cancel: Callable[[], None]) -> CancelWatch:
        """Call ``on_cancel`` once when the flag is set.

        A flag remains until the session is leased again: the process may die before it has stored the end.
        """
        return CancelWatch(self, hex_session(session), on_cancel)

    def begin(self, watch: CancelWatch) -> None:
        """Begin a block of `watch`."""
        self._local.begin(watch)
        self._watched[watch.session] += 1
        self._polling.start()

    async def end(self, watch: CancelWatch) -> None:
        """End a block of `watch`."""
        self._watched -= Counter((watch.session,))
        await self._local.end(watch)

    async def aclose(self) -> None:
        """Stop polling."""
        await self._polling.aclose()

    async def _poll(self) -> None:
        while self._watched:
            await asyncio.sleep(POLL_S)
            with suppress(CheckpointError):  # the next poll retries
                for session in await self._flagged(list(self._watched)):
                    self._local.cancel(session)

    async def _flagged(self, sessions: Sequence[str]) -> list[str]:
        query = f"SELECT session FROM cancels WHERE session IN {marks(sessions)}"
        return [session for (session,) in await self._tables.read(query, sessions)] if sessions else []
