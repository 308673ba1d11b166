"""Events of a run on their way to a journal that takes time to store them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ragflow_lg.base.errors import RunCancelled, StreamError
from ragflow_lg.server.streaming.event_codec import EntryData, count_bytes
from ragflow_lg.server.streaming.journal import Journal

MAX_BACKLOG = 256
MAX_BACKLOG_BYTES = 1024 * 1024
"""How many events may wait for the journal before the run has to wait."""


class Backlog:
    """Writes the events of one run. Those that arrive during one write are sent with the next."""

    def __init__(self, journal: Journal, run_id: str, on_failed: Callable[[], None]) -> None:
        """Initialize. ``on_failed`` is called if the journal fails."""
        self._journal = journal
        self._run_id = run_id
        self._data: list[EntryData] = []
        self._bytes = 0
        self._added = self._written = 0
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        """Who waits until so many events have been written."""
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_complete = self._has_stopped = False
        self._on_failed = on_failed
        self._writing = asyncio.create_task(self._write())
        self._writing.add_done_callback(self._report_failure)

    async def add(self, data: EntryData) -> None:
        """Add an event, as soon as there is room."""
        while len(self._data) >= MAX_BACKLOG or self._bytes >= MAX_BACKLOG_BYTES:
            self._has_room.clear()
            await self._has_room.wait()
        self._data.append(data)
        self._added += 1
        self._bytes += count_bytes(data)
        self._has_news.set()

    async def wait_until_written(self) -> None:
        """Wait until the journal has everything that has been added, so that another process can go on from here.

        Raises:
            RunCancelled: if the journal has failed before. What depends on these events must not be stored.
        """
        if self._written >= self._added:
            return
        if self._has_stopped:
            raise RunCancelled
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._added, future))
        if not await future:
            raise RunCancelled

    async def finish(self) -> StreamError | None:
        """Write what is left. Return the error of the journal if it has failed."""
        self._is_complete = True
        self._has_news.set()
        try:
            await self._writing
        except StreamError as error:
            return error
        return None

    async def _write(self) -> None:
        try:
            is_complete = False
            while not is_complete:
                await self._has_news.wait()
                self._has_news.clear()
                is_complete = self._is_complete
                data, self._data, self._bytes = self._data, [], 0
                self._has_room.set()
                if data:
                    await self._journal.append(self._run_id, data)
                    self._written += len(data)
                    self._report_written()
        finally:
            self._has_stopped = True
            self._report_written()

    def _report_written(self) -> None:
        while self._waiting and (self._has_stopped or self._waiting[0][0] <= self._written):
            count, future = self._waiting.pop(0)
            if not future.done():
                future.set_result(count <= self._written)

    def _report_failure(self, writing: asyncio.Task[None]) -> None:
        if writing.cancelled() or writing.exception() is not None:
            self._on_failed()
