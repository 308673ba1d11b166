"""A pool of worker processes that tenants share fairly."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from ragflow_lg.adapters.workers.fair_slots import FairSlots
from ragflow_lg.adapters.workers.worker_process import WorkerProcess
from ragflow_lg.base.worker_tasks import WorkerTask
from ragflow_lg.services.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")

MEMORY_BYTES = 1024**3
MAX_WAITING = 100
"""Maximum number of tasks of one tenant that wait for a worker."""


class WorkerPool:
    """The processes. They start when they are first needed, or with `start`, and stay until `aclose`."""

    def __init__(self, size: int = 0, memory_bytes: int = MEMORY_BYTES, max_waiting: int = MAX_WAITING) -> None:
        """Initialize. ``size`` is the maximum number of processes: 0 means as many as processors, but at least 2."""
        self.size = size or max(2, os.cpu_count() or 1)
        self._memory_bytes = memory_bytes
        self._slots = FairSlots(self.size, max_waiting)
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
        processes = list(self._all)
        self._all.clear()
        self._idle.clear()
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in processes))

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task for no tenant in particular; see `ragflow_lg.services.workers.Workers`."""
        return await self.run_for("", task, args, kwargs)

    def for_tenant(self, tenant: str) -> Workers:
        """Return the pool as one tenant uses it."""
        return _TenantWorkers(self, tenant)

    async def run_for(self, tenant: str, task: WorkerTask[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Run a task for a tenant."""
        if task.is_small(*args, **kwargs):
            return task.function(*args, **kwargs)
        async with self._slots.slot(tenant):
            process = await self._take_process()
            try:
                return await process.perform(task, args, kwargs)
            finally:
                await self._give_back(process)

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

    async def _give_back(self, process: WorkerProcess) -> None:
        if process.is_usable and process in self._all:
            self._idle.append(process)
        else:
            self._all.discard(process)
            await process.wait()


class _TenantWorkers(Struct, frozen=True):
    """The `Workers` of one tenant."""

    pool: WorkerPool
    tenant: str

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task."""
        return await self.pool.run_for(self.tenant, task, args, kwargs)

    def for_tenant(self, tenant: str) -> Workers:
        """Return the pool as another tenant uses it."""
        return self.pool.for_tenant(tenant)
