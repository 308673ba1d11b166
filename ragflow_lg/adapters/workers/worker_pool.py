"""A pool of worker processes that tenants share fairly."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from ragflow_lg.adapters.workers.fair_slots import FairSlots
from ragflow_lg.adapters.workers.worker_process import WorkerProcess
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.base.worker_tasks import WorkerTask, load_modules
from ragflow_lg.services.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)
MEMORY_BYTES = 1024**3
MAX_WAITING = 100
"""Maximum number of tasks of one tenant that wait for a worker."""


class WorkerPool:
    """The processes. They start when they are first needed, or with `start`, and stay until `aclose`."""

    def __init__(self, size: int = 0, memory_bytes: int = MEMORY_BYTES, max_waiting: int = MAX_WAITING) -> None:
        """Initialize. ``size`` is the maximum number of processes: 0 means as many as processors, but at least 2."""
        self.size = size or max(2, os.cpu_count() or 1)
        self._memory_bytes = memory_bytes
        self._max_waiting = max_waiting
        self._slots = FairSlots(self.size, max_waiting)
        self._long: WorkerPool | None = None
        """The processes of long tasks, as many again."""
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._modules: set[str] = set()
        """What the tasks so far have loaded."""
        self._background: set[asyncio.Task[None]] = set()

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
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        processes = list(self._all)
        self._all.clear()
        self._idle.clear()
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in processes))

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task for the tenant of the current request; see `ragflow_lg.services.workers.Workers`."""
        return await self.run_for(current_notes().tenant, task, args, kwargs)

    def for_tenant(self, tenant: str) -> Workers:
        """Return the pool as one tenant uses it."""
        return _TenantWorkers(self, tenant)

    async def run_for(self, tenant: str, task: WorkerTask[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Run a task for a tenant."""
        if task.is_small(*args, **kwargs):
            return task.function(*args, **kwargs)
        if not task.is_long:
            return await self._run_in_process(tenant, task, args, kwargs)
        if self._long is None:
            self._long = WorkerPool(self.size, self._memory_bytes, self._max_waiting)
        return await self._long._run_in_process(tenant, task, args, kwargs)

    async def _run_in_process(
        self, tenant: str, task: WorkerTask[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        self._modules |= {task.module, *task.loads}
        process, ticket = None, self._slots.request(tenant)
        try:
            await ticket
            process = await self._take_process()
            if tenant and not self._idle and len(self._all) < self.size:
                self._in_background(self._start_ready())  # the next tenant does not wait for it
            return await process.perform(task, args, kwargs)
        finally:
            if process is None or self._keep(process) or not tenant:
                self._slots.give_back(tenant, ticket)
            else:
                self._in_background(self._replace(process, tenant, ticket))

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

    async def _start_ready(self) -> None:
        """Start a process that has loaded what the tasks so far needed."""
        try:
            process = await self._start_process()
            try:
                await process.perform(load_modules, (sorted(self._modules),), {})
            finally:
                self._keep(process)
        except (OSError, RagflowLgError) as error:
            logger.warning("a worker process cannot be started: %s", error)

    def _keep(self, process: WorkerProcess) -> bool:
        """Keep a process for the next task, if it is usable."""
        if process.is_usable and process in self._all:
            self._idle.append(process)
            return True
        self._all.discard(process)
        return False

    async def _replace(self, process: WorkerProcess, tenant: str, ticket: asyncio.Future[None]) -> None:
        """Start a process in place of one that has ended. Its tenant waits for that; no other does."""
        try:
            await process.wait()
            await self._start_ready()
        finally:
            self._slots.give_back(tenant, ticket)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


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
