"""Threads for work on an SQLite file: a whole transaction is one trip to a thread instead of one for each statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

__all__ = ["SqliteThreads"]

_T = TypeVar("_T")


class SqliteThreads:
    """One thread for reading and one for writing: writers of this process do not wait for each other in SQLite."""

    def __init__(self, engine: Engine) -> None:
        """Start with an engine, which `close` disposes of."""
        self._engine = engine
        self._reading = ThreadPoolExecutor(1, "database-reading")
        self._writing = ThreadPoolExecutor(1, "database-writing")

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Run a read-only function in the reading thread.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: If the database fails.
        """

        def read() -> _T:
            with self._engine.connect() as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Run a function in a transaction in the writing thread.

        If the caller is cancelled, the work either has not begun or completes anyway.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: If the database fails; nothing is written then.
        """

        def write() -> _T:
            with self._engine.begin() as connection:
                # A transaction that starts with a read fails as soon as another writer commits.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._writing, write)

    async def close(self) -> None:
        """Wait for work in progress and close the connections."""
        for executor in (self._reading, self._writing):
            await asyncio.to_thread(executor.shutdown)
        self._engine.dispose()
