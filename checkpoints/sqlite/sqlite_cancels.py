"""Cancellation across processes through SQLite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.memory.memory_store import MemoryCancels
from ragflow_lg.checkpoints.run_records import hex_session
from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

POLL_S = 0.2

_FLAGGED = "SELECT session FROM cancels WHERE session IN (SELECT value FROM json_each(?))"


class SqliteCancels:
    """Flags in a table. A single poll every 0.2 s serves all sessions in this process."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._rows = file.rows
        self._local = MemoryCancels()
        self._watched: Counter[str] = Counter()
        self._is_polling = False

    async def request(self, session: str) -> None:
        """Set the flag; a runner in this process stops immediately."""
        with translate_errors(sqlite3.Error):
            await self._rows("INSERT OR IGNORE INTO cancels VALUES (?)", (hex_session(session),))
        await self._local.request(session)

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once when the flag is set.

        A flag that is set at the end, but has not been seen, remains until the session is leased again.
        """
        name, is_seen = hex_session(session), False

        def cancel() -> None:
            nonlocal is_seen
            is_seen = True
            on_cancel()

        async with self._local.watch(name, cancel):
            self._watched[name] += 1
            if not self._is_polling:
                self._poll_later()
            try:
                yield
            finally:
                self._watched -= Counter((name,))
                if is_seen:
                    with suppress(sqlite3.Error):
                        await self._rows("DELETE FROM cancels WHERE session = ?", (name,))

    def _poll_later(self) -> None:
        self._is_polling = bool(self._watched)
        if self._is_polling:
            asyncio.get_running_loop().call_later(POLL_S, self._poll, context=Context())

    def _poll(self) -> None:
        names = json.dumps(list(self._watched))
        polling = self._file.begin(lambda: self._file.connection.execute(_FLAGGED, (names,)).fetchall())
        polling.add_done_callback(self._cancel_flagged)

    def _cancel_flagged(self, polling: asyncio.Future[list[Any]]) -> None:
        if not polling.cancelled() and polling.exception() is None:  # otherwise, the next poll retries
            for (name,) in polling.result():
                self._local.cancel(name)
        self._poll_later()
