"""Bounded threads for work that may never end. They do not keep the process from exiting."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar

__all__ = ["DaemonThreads"]

T = TypeVar("T")
_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads:
    """Up to ``limit`` daemon threads, started on demand. Further work is queued."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start with no threads; after a fork the parent's threads do not exist in the child."""
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread and return its result.

        If the caller is cancelled, work that has started continues and its result is dropped.
        """
        future: Future[T] = Future()
        context = copy_context()
        self._jobs.put((future, lambda: context.run(work)))
        with self._lock:
            if self._idle < self._jobs.qsize() and self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            future, work = self._jobs.get()
            with self._lock:
                self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, work  # a waiting thread keeps no references
