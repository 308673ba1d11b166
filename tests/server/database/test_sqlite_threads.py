from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from ragflow_lg.server.database.sqlite_threads import SqliteThreads


def open_threads(folder: Path) -> SqliteThreads:
    engine = create_engine(f"sqlite:///{folder}/file.db")
    with engine.begin() as connection:
        connection.execute(text("PRAGMA journal_mode=WAL"))
        connection.execute(text("CREATE TABLE numbers (n INTEGER)"))
    return SqliteThreads(engine)


def add(connection: Connection) -> str:
    connection.execute(text("INSERT INTO numbers VALUES (1)"))
    return threading.current_thread().name


def count(connection: Connection) -> int:
    return connection.execute(text("SELECT count(*) FROM numbers")).scalar_one()


async def test_writes_share_one_thread_outside_the_event_loop(tmp_path: Path) -> None:
    threads = open_threads(tmp_path)
    names = set(await asyncio.gather(*(threads.write(add) for _ in range(5))))
    assert len(names) == 1
    assert threading.current_thread().name not in names
    assert await threads.read(count) == 5
    await threads.close()


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    threads = open_threads(tmp_path)
    has_written, may_end = threading.Event(), threading.Event()

    def write(connection: Connection) -> None:
        add(connection)
        has_written.set()
        may_end.wait(10)

    writing = asyncio.create_task(threads.write(write))
    await asyncio.to_thread(has_written.wait, 10)
    assert await threads.read(count) == 0
    may_end.set()
    await writing
    assert await threads.read(count) == 1
    await threads.close()


async def test_a_failure_is_rolled_back_and_the_thread_continues(tmp_path: Path) -> None:
    threads = open_threads(tmp_path)

    def fail(connection: Connection) -> None:
        add(connection)
        connection.execute(text("SELECT * FROM nowhere"))

    with pytest.raises(OperationalError, match="nowhere"):
        await threads.write(fail)
    assert await threads.read(count) == 0
    await threads.write(add)
    assert await threads.read(count) == 1
    await threads.close()


async def test_cancelled_work_completes_or_does_not_begin_and_close_waits_for_it(tmp_path: Path) -> None:
    threads = open_threads(tmp_path)
    has_begun, may_end = threading.Event(), threading.Event()

    def write(connection: Connection) -> None:
        add(connection)
        has_begun.set()
        may_end.wait(10)
        add(connection)

    writing, waiting = asyncio.create_task(threads.write(write)), asyncio.create_task(threads.write(add))
    await asyncio.to_thread(has_begun.wait, 10)
    writing.cancel()
    waiting.cancel()
    may_end.set()
    await asyncio.gather(writing, waiting, return_exceptions=True)
    await threads.close()
    again = SqliteThreads(create_engine(f"sqlite:///{tmp_path}/file.db"))
    assert await again.read(count) == 2  # both rows of the work that had begun, none of the other
    await again.close()
