"""Computes in threads, so that the event loop can do other things, with one thread at a time for each tenant.

All threads of a process share its interpreter. Beside three threads that compute, the event loop has a quarter of the
time, and so have the runs of all tenants, no matter whose threads these are.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ragflow_lg.base.request_notes import current_notes

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""How many tenants compute for long at the same time. More threads would only wait for each other."""

LONG_S = 0.05
"""How much processor time makes a call a long one."""

LONG_KEPT_S = 10.0
"""How long a tenant leaves the last thread to others after a long call."""

PRIORITY = 10
"""How much lower the priority of a thread is than that of the event loop, as for the command ``nice``."""


async def compute_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that computes, and does not wait, in a thread; return its result.

    The calls of a tenant run one after the other. A function that waits, such as for a file, would delay them:
    `asyncio.to_thread` is for those.
    """
    loop = asyncio.get_running_loop()
    threads = _THREADS.get(loop)
    if threads is None:
        threads = _THREADS[loop] = ComputingThreads(THREADS)
    return await loop.run_in_executor(threads, partial(copy_context().run, function, *args, **kwargs))


def lower_own_priority() -> None:
    """Lower the priority of the thread that calls this. Only Linux has priorities of threads."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0) + PRIORITY, 19))


class _Call(NamedTuple):
    function: Callable[[], Any]
    future: Future[Any]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.function()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ComputingThreads(ThreadPoolExecutor):
    """Threads in which each tenant has one call at a time. Tenants take turns.

    Tenants with long calls use all threads but one, so that the others do not wait for them. A tenant's first long call
    may be in the last thread. Calls for nobody do not wait for each other: what all tenants share may depend on them.
    """

    def __init__(self, count: int) -> None:
        """Initialize. ``count`` tenants with long calls compute at the same time. Threads start when needed."""
        super().__init__(count + 1, "computing", lower_own_priority)
        self._count = count
        self._lock = threading.Lock()
        self._calls: dict[str, deque[_Call]] = {}
        """The calls that wait, for each tenant for whom a thread works or will."""
        self._long_until: dict[str, float] = {}
        """Until when the calls of a tenant count as long, those that ended last at the end."""
        self._places: set[str] = set()
        """The tenants with long calls for whom a thread works."""
        self._waiting: deque[str] = deque()
        """The tenants with long calls for whom one will."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of a call for the tenant of the current context."""
        tenant = current_notes().tenant
        if not tenant:
            return super().submit(fn, *args, **kwargs)
        call = _Call(partial(fn, *args, **kwargs), Future())
        with self._lock:
            if (calls := self._calls.get(tenant)) is not None:
                calls.append(call)
                return call.future
            self._calls[tenant] = deque([call])
            ready = self._admit(tenant)
        try:
            for each in ready:
                super().submit(self._run_for, each)
        except BaseException:  # no thread can be started, or the process ends
            with self._lock:
                refused = self._calls.pop(tenant, ())
                self._places.discard(tenant)
            for each in refused:
                each.future.cancel()
            raise
        return call.future

    def _run_for(self, tenant: str) -> None:
        """Run a call of a tenant; its next one runs after those of the others that are waiting."""
        ready = deque([tenant])
        while ready:
            tenant, start_s = ready.popleft(), time.thread_time()
            with self._lock:
                call = self._calls[tenant].popleft()
            call.run()
            del call
            for each in self._end_call(tenant, time.thread_time() - start_s):
                try:
                    super().submit(self._run_for, each)
                except RuntimeError:  # the process ends: what has been accepted still runs, here
                    ready.append(each)

    def _end_call(self, tenant: str, took_s: float) -> list[str]:
        """Note how long a call has taken, and return the tenants for whom a thread works next."""
        with self._lock:
            if took_s >= LONG_S:
                now_s = time.monotonic()
                self._long_until.pop(tenant, None)
                self._long_until[tenant] = now_s + LONG_KEPT_S
                while (oldest := next(iter(self._long_until))) and self._long_until[oldest] < now_s:
                    del self._long_until[oldest]
            self._places.discard(tenant)
            if not self._calls[tenant]:
                del self._calls[tenant]
                return self._admit()
            return self._admit(tenant)

    def _admit(self, tenant: str = "") -> list[str]:
        """Return the tenants for whom a thread works next, if the ``tenant`` has a call. The lock is held."""
        if tenant and self._long_until.get(tenant, 0.0) < time.monotonic():
            return [tenant, *self._admit()]
        if tenant:
            self._waiting.append(tenant)
        ready: list[str] = []
        while self._waiting and len(self._places) < self._count:
            ready.append(self._waiting.popleft())
            self._places.add(ready[-1])
        return ready


_THREADS: WeakKeyDictionary[asyncio.AbstractEventLoop, ComputingThreads] = WeakKeyDictionary()
