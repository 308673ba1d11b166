"""Work that goes on after a turn: a few tasks at a time, each once, and bounded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable

from ragflow_lg.adapters.workers.fair_slots import FairPermits
from ragflow_lg.base.request_notes import current_notes

MAX_WAITING = 256
"""Maximum number of tasks. What does not fit is left to a later use of the memory."""

MAX_TENANT = 64
"""Maximum number of a tenant's tasks."""

CONCURRENCY = 4
CLOSE_S = 20.0
"""How long closing waits for tasks. What they have not done is left to a later use of the memory."""


class BackgroundTasks:
    """Tasks by name. Tenants take turns."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._tenants: Counter[str] = Counter()
        self._permits = FairPermits(CONCURRENCY)

    def start(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Start a task, unless there is one with this name or there are too many."""
        tenant = current_notes().tenant
        if name in self._tasks or len(self._tasks) >= MAX_WAITING or self._tenants[tenant] >= MAX_TENANT:
            return
        self._tenants[tenant] += 1
        self._permits.add(tenant)
        task = self._tasks[name] = asyncio.create_task(self._run(tenant, work))
        task.add_done_callback(lambda _: self._forget(name, tenant))

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

    async def _run(self, tenant: str, work: Callable[[], Awaitable[None]]) -> None:
        async with self._permits.hold(tenant):
            await work()

    def _forget(self, name: Hashable, tenant: str) -> None:
        self._tasks.pop(name, None)
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]
