"""What the processes of a deployment do at certain times: rows say when, and one process claims each row."""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic

from ragflow_lg.base.errors import BusyError, DatabaseError, QuotaError, RagflowLgError, StreamError
from ragflow_lg.base.tasks import running
from ragflow_lg.server.database.due_rows import DueRow, find_due_rows

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.runs.turns import Turns

LOOK_S = 1.0
"""How often a process looks, give or take half of it, so that servers do not look all at once."""
MAX_STARTS = 20
"""How many rows a process works on at the same time."""
CLAIM_MS = 60_000
"""How long another process waits before it tries again what a process has begun, beyond the time to wait for a place.
"""

logger = logging.getLogger(__name__)


class DueTasks(ABC, Generic[DueRow]):
    """The tasks of one process for the rows of one table. ``now_ms`` is the clock."""

    name = ""
    """What the log calls a row."""
    table: type[DueRow]

    def __init__(self, app_state: AppState, turns: Turns, now_ms: Callable[[], int] | None = None) -> None:
        self._app_state = app_state
        self._turns = turns
        self._database = app_state.database
        self._now_ms = now_ms or app_state.now_ms
        self._claim_ms = CLAIM_MS + int(2000 * app_state.settings.server.run_wait_s)
        self._starts: set[asyncio.Task[None]] = set()

    async def look(self) -> bool:
        """Begin with what is due, as far as there is room. Return whether more may be due.

        Raises:
            DatabaseError: If the database fails.
        """
        room = MAX_STARTS - len(self._starts)
        if room <= 0 or self._app_state.run_manager.is_draining:
            return room <= 0
        due = await find_due_rows(self._database, self.table, self._now_ms(), room)
        for row in due:
            if await self._claim(row, self._now_ms() + self._claim_ms):
                task = asyncio.create_task(self._start(row), name=f"look after a {self.name}")
                self._starts.add(task)
                task.add_done_callback(self._note_end)
        return len(due) == room

    async def wait_for_room(self, timeout_s: float) -> None:
        """Wait until a task that `look` has begun has ended."""
        if self._starts:
            await asyncio.wait(self._starts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        """Stop what has not been started. Another process tries it again."""
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._starts.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("a %s has failed", self.name, exc_info=error)

    @abstractmethod
    async def _claim(self, row: DueRow, until_ms: int) -> bool:
        """Claim a row for this process. Return False if another process has claimed it."""

    @abstractmethod
    async def _start(self, row: DueRow) -> None:
        """Do what a claimed row says. What is not done when the claim ends, a process tries again."""


@asynccontextmanager
async def looking_for_due_rows(tasks: DueTasks[DueRow]) -> AsyncGenerator[None]:
    """Do what is due inside the context."""
    try:
        async with running(partial(_look_forever, tasks), f"look for each {tasks.name}"):
            yield
    finally:
        await tasks.aclose()


async def _look_forever(tasks: DueTasks[DueRow]) -> None:
    while True:
        has_more = False
        try:
            has_more = await tasks.look()
        except RagflowLgError as error:
            logger.warning("the database cannot be asked for a %s: %s", tasks.name, error)
        pause_s = LOOK_S * random.uniform(0.5, 1.5)
        await (tasks.wait_for_room(pause_s) if has_more else asyncio.sleep(pause_s))


def is_passing(error: RagflowLgError) -> bool:
    """Return whether the same start may succeed soon. A quota of a day, for example, will not."""
    is_busy = isinstance(error, BusyError) and not isinstance(error, QuotaError)
    return is_busy or isinstance(error, DatabaseError | StreamError)
