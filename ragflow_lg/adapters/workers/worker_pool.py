"""A pool of worker processes."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ParamSpec, TypeVar

from ragflow_lg.adapters.workers.slots import Slots
from ragflow_lg.adapters.workers.worker_process import WorkerProcess
from ragflow_lg.base.worker_tasks import WorkerTask

P = ParamSpec("P")
T = TypeVar("T")

MEMORY_BYTES = 1024**3
MAX_WAITING = 1_000
"""Maximum number of tasks that wait for a worker."""


class WorkerPool:
    """The processes. They start when they are first needed, or with `start`, and stay until `aclose`."""

    def __init__(self, size: int = 0, memory_bytes: int = MEMORY_BYTES, max_waiting: int = MAX_WAITING) -> None:
        """Initialize. ``size`` is the maximum number of processes: 0 means as many as processors, but at least 2."""
        self.size = size or max(2, os.cpu_count() or 1)
        self._memory_bytes = memory_bytes
        self._max_waiting = max_waiting
        self._slots = Slots(self.size, max_waiting, "for a worker process")
        self._long: WorkerPool | None = None
        """The processes of long tasks, as many again."""
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()

    @property
    def processes(self) -> frozenset[WorkerProcess]:
        """The processes that have been started and have not been replaced."""
        return frozenset(self._all)

    async def start(self) -> None:
        """Start all processes, so that the first tasks do not wait for them."""
        while len(self._all) < self.size:
            self._idle.append(await self._start_process())

    async def aclose(self) -> None:
        """Kill all processes."""
        if self._long is not None:
            await self._long.aclose()
        processes = list(self._all)
        self._all.clear()
        self._idle.clear()
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in processes))

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task; see `ragflow_lg.services.workers.Workers`."""
        if task.is_small(*args, **kwargs):
            return task.function(*args, **kwargs)
        if not task.is_long:
            return await self._run_in_process(task, args, kwargs)
        if self._long is None:
            self._long = WorkerPool(self.size, self._memory_bytes, self._max_waiting)
        return await self._long._run_in_process(task, args, kwargs)

    async def _run_in_process(self, task: WorkerTask[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        async with self._slots.slot():
            process = await self._take_process()
            try:
                return await process.perform(task, args, kwargs)
            finally:
                self._keep(process)

    async def _take_process(self) -> WorkerProcess:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            self._all.discard(process)
        return await self._start_process()

    async def _start_process(self) -> WorkerProcess:
        process = await WorkerProcess.start(self._memory_bytes)
        self._all.add(process)
        return process

    def _keep(self, process: WorkerProcess) -> None:
        """Keep a process for the next task, if it is usable."""
        if process.is_usable and process in self._all:
            self._idle.append(process)
        else:
            self._all.discard(process)
