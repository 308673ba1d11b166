"""Computes in threads, so that the event loop can do other things, with one thread at a time for each tenant.

All threads of a process share its interpreter. Beside three threads that compute, the event loop has a quarter of the
time, and so have the runs of all tenants, no matter whose threads these are.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ragflow_lg.base.request_notes import find_tenant

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""How many tenants compute at the same time. More threads would only wait for each other."""

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

    Calls for nobody do not wait for each other: what all tenants share may depend on them.
    """

    def __init__(self, count: int) -> None:
        """Initialize. ``count`` is the number of threads; they start when they are needed."""
        super().__init__(count, "computing", lower_own_priority)
        self._lock = threading.Lock()
        self._calls: dict[str, deque[_Call]] = {}
        """The calls that wait, for each tenant for whom a thread works or will."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of a call for the tenant of the current context."""
        tenant = find_tenant(None)
        if not tenant:
            return super().submit(fn, *args, **kwargs)
        call = _Call(partial(fn, *args, **kwargs), Future())
        with self._lock:
            if (calls := self._calls.get(tenant)) is not None:
                calls.append(call)
                return call.future
            self._calls[tenant] = deque([call])
        try:
            super().submit(self._run_for, tenant)
        except BaseException:  # no thread can be started, or the process ends
            with self._lock:
                refused = self._calls.pop(tenant, ())
            for each in refused:
                each.future.cancel()
            raise
        return call.future

    def _run_for(self, tenant: str) -> None:
        """Run a call of a tenant, if one is left; its next one runs after those of the others that are waiting."""
        while (call := self._take(tenant)) is not None:
            call.run()
            with suppress(RuntimeError):  # the process ends: what has been accepted still runs, here
                super().submit(self._run_for, tenant)
                return

    def _take(self, tenant: str) -> _Call | None:
        with self._lock:
            if calls := self._calls.get(tenant):
                return calls.popleft()
            self._calls.pop(tenant, None)
            return None


_THREADS: WeakKeyDictionary[asyncio.AbstractEventLoop, ComputingThreads] = WeakKeyDictionary()
