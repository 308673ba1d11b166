"""A thread that runs functions for event loops, one after the other.

`concurrent.futures` makes a second future, a condition and several callbacks for every call. A turn calls the threads
of its databases twenty times, and this takes two thirds of the time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    result: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class WorkThread:
    """A thread for one resource that several threads must not use at the same time."""

    def __init__(self, name: str) -> None:
        """Start the thread. It ends with `close`, or with the process."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_run_jobs, args=(self._jobs,), name=name, daemon=True).start()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function after all earlier ones, and return the future of its result.

        If the future is cancelled, the function either never starts or runs to its end.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, result, loop))
        return result

    def close(self) -> None:
        """End the thread when it has run all functions so far. Later ones never run."""
        self._jobs.put(None)


def _run_jobs(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if not job.result.cancelled():
            _run(*job)
        del job  # it would keep the work and its result alive until the next one


def _run(work: Callable[[], Any], result: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
    value, error = None, None
    try:
        value = work()
    except BaseException as raised:  # noqa: BLE001 - the caller gets it
        error = raised
    with suppress(RuntimeError):  # the loop has been closed, so nobody waits
        loop.call_soon_threadsafe(_finish, result, value, error)
    error = None  # its traceback refers to this frame


def _finish(result: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if result.done():  # it was cancelled while the work was running
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)
