"""Cancelling a session's turn, within a process and through SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiosqlite

from checkpoints.failures import told_plainly
from checkpoints.runs import hex_session

__all__ = ["CANCELS_TABLE", "MemoryCancels", "SqliteCancels", "polling"]

CANCELS_TABLE = "CREATE TABLE IF NOT EXISTS cancels (session TEXT PRIMARY KEY) WITHOUT ROWID;"

SQLITE_POLL_S = 0.2


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
    """By a table that the runner looks at every 0.2 s."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        """``connection`` commits every statement by itself."""
        self._connection = connection

    async def request(self, session: str) -> None:
        """Set the flag."""
        with told_plainly(aiosqlite.Error):
            await self._connection.execute("INSERT OR IGNORE INTO cancels VALUES (?)", (hex_session(session),))

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once when the flag is set; one from before is stale."""
        name = hex_session(session)

        async def is_set() -> bool:
            rows: Any = await self._connection.execute_fetchall("SELECT 1 FROM cancels WHERE session = ?", (name,))
            return bool(rows)

        async def clear() -> None:
            await self._connection.execute("DELETE FROM cancels WHERE session = ?", (name,))

        async with polling(SQLITE_POLL_S, is_set, clear, on_cancel, errors=(aiosqlite.Error,)):
            yield


@asynccontextmanager
async def polling(
    interval_s: float,
    is_set: Callable[[], Awaitable[bool]],
    clear: Callable[[], Awaitable[None]],
    on_cancel: Callable[[], None],
    *,
    errors: tuple[type[Exception], ...],
    told: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncGenerator[None]:
    """Look at a flag until it is set; clear it before and after. ``told`` waits for word of it, for a while."""
    is_over = False

    async def watch() -> None:
        while not is_over:
            is_told = await told() if told else False
            if interval_s:
                await asyncio.sleep(interval_s)
            with suppress(*errors):  # the flag is looked at again
                if is_told or await is_set():
                    on_cancel()
                    return

    with told_plainly(*errors):
        await clear()
    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        is_over = True
        while not watcher.done():  # a client may swallow a cancellation that comes while it answers
            watcher.cancel()
            # Unlike awaiting the task, this lets a cancellation of the caller through.
            await asyncio.wait([watcher], timeout=SQLITE_POLL_S)
        with suppress(*errors):
            await clear()
