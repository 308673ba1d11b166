"""Cancelling a session's turn, within a process and through SQLite."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.checkpoints.run_records import hex_session

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

__all__ = ["MemoryCancels", "SqliteCancels"]

SQLITE_POLL_S = 0.2

_FLAGGED = "SELECT session FROM cancels WHERE session IN (SELECT value FROM json_each(?))"


class MemoryCancels:
    """Within one process."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[Callable[[], None]]] = {}

    async def request(self, session: str) -> None:
        """Stop whoever runs the session."""
        for on_cancel in self._watchers.pop(hex_session(session), ()):
            on_cancel()

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once when somebody asks."""
        watchers = self._watchers.setdefault(hex_session(session), [])
        watchers.append(on_cancel)
        try:
            yield
        finally:
            if on_cancel in watchers:
                watchers.remove(on_cancel)
            if not watchers:
                self._watchers.pop(hex_session(session), None)


class SqliteCancels:
    """By a table that is looked at every 0.2 s, once for all sessions that run in this process."""

    def __init__(self, file: SqliteFile) -> None:
        self._rows = file.rows
        self._here = MemoryCancels()
        self._watched: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None

    async def request(self, session: str) -> None:
        """Set the flag; whoever runs the session in this process stops at once."""
        with told_plainly(sqlite3.Error):
            await self._rows("INSERT OR IGNORE INTO cancels VALUES (?)", (hex_session(session),))
        await self._here.request(session)

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once when the flag is set; one from before is stale."""
        name = hex_session(session)
        with told_plainly(sqlite3.Error):
            await self._clear(name)
        async with self._here.watch(name, on_cancel):
            self._watched[name] += 1
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
            try:
                yield
            finally:
                self._leave(name)
                with suppress(sqlite3.Error):
                    await self._clear(name)

    def _leave(self, name: str) -> None:
        self._watched -= Counter((name,))
        if not self._watched and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(SQLITE_POLL_S)
            with suppress(sqlite3.Error):  # the flags are looked at again
                for (name,) in await self._rows(_FLAGGED, (json.dumps(list(self._watched)),)):
                    await self._here.request(name)

    async def _clear(self, name: str) -> None:
        await self._rows("DELETE FROM cancels WHERE session = ?", (name,))
