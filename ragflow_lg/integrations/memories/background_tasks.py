"""Work that goes on after a turn: a few tasks at a time, each once, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

MAX_WAITING = 256
"""Maximum number of tasks. What does not fit is left to a later use of the memory."""

CONCURRENCY = 4
CLOSE_S = 20.0
"""How long closing waits for tasks. What they have not done is left to a later use of the memory."""


class BackgroundTasks:
    """Tasks by name."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._permits = asyncio.Semaphore(CONCURRENCY)

    def start(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Start a task, unless there is one with this name or there are too many."""
        if name in self._tasks or len(self._tasks) >= MAX_WAITING:
            return
        task = self._tasks[name] = asyncio.create_task(self._run(work))
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def settle(self) -> None:
        """Wait until all tasks have ended, also those that tasks start."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def aclose(self) -> None:
        """Wait for the tasks for some time, and then stop them."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.settle()
        except TimeoutError:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        async with self._permits:
            await work()
