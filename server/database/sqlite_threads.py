"""Work with an SQLite file in threads: a whole transaction is one trip to a thread, and not one a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

__all__ = ["SqliteThreads"]

_T = TypeVar("_T")


class SqliteThreads:
    """One thread that reads and one that writes: writers of this process do not wait in SQLite for each other."""

    def __init__(self, engine: Engine) -> None:
        """``engine`` is disposed of by `close`."""
        self._engine = engine
        self._reading = ThreadPoolExecutor(1, "database-reading")
        self._writing = ThreadPoolExecutor(1, "database-writing")

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Let the work look something up.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: if the database does not answer.
        """

        def read() -> _T:
            with self._engine.connect() as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Let the work write, all or nothing. One that is cancelled has not begun, or is done all the same.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: if the database does not take it.
        """

        def write() -> _T:
            with self._engine.begin() as connection:
                # A transaction that began with reading is refused as soon as somebody else has written.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._writing, write)

    async def close(self) -> None:
        """Wait for what is under way, and close the connections."""
        for executor in (self._reading, self._writing):
            await asyncio.to_thread(executor.shutdown)
        self._engine.dispose()
