"""Synchronous calls of a library in threads, whose HTTP requests run in the event loop.

A thread that waits for a server cannot be stopped. Here it waits for a request of the event loop, which ends at once
when the caller is cancelled. The threads are not those of the event loop, which others wait for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()
_QUEUED = 16
"""How many results a thread may be ahead of their reader."""

_current: ContextVar[_Call] = ContextVar("_current")


class _Call:
    """One call in a thread, and what it waits for in the event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waits: set[concurrent.futures.Future[Any]] = set()
        self._is_over = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the event loop and return its result to the thread."""
        if self._is_over:
            work.close()
            raise concurrent.futures.CancelledError
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        self._waits.add(future)
        try:
            if self._is_over:
                future.cancel()
            return future.result()
        finally:
            self._waits.discard(future)

    def end(self) -> None:
        """Cancel whatever the thread waits for, now and later."""
        self._is_over = True
        for future in tuple(self._waits):
            future.cancel()


def wait_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the event loop of the call that this thread executes, and return its result."""
    return _current.get().wait(work)


class ThreadCalls:
    """Threads for the calls of one endpoint."""

    def __init__(self, threads: int) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(threads, "model")

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function."""
        call = _Call()
        context = copy_context()
        context.run(_current.set, call)
        try:
            return await call.loop.run_in_executor(self._executor, context.run, function)
        finally:
            call.end()

    async def iterate(self, make: Callable[[], Iterable[T]]) -> AsyncGenerator[T]:
        """Yield what an iterable yields. The thread waits for a slow reader."""
        call = _Call()
        queue: asyncio.Queue[Any] = asyncio.Queue()
        room = asyncio.Semaphore(_QUEUED)

        async def put(item: T) -> None:
            await room.acquire()
            queue.put_nowait(item)

        def produce() -> None:
            for item in make():
                call.wait(put(item))

        context = copy_context()
        context.run(_current.set, call)
        producing = call.loop.run_in_executor(self._executor, context.run, produce)
        producing.add_done_callback(lambda _: queue.put_nowait(_END))
        try:
            while (item := await queue.get()) is not _END:
                room.release()
                yield item
            await producing
        finally:
            call.end()
            producing.cancel()

    def close(self) -> None:
        """Let the threads end."""
        self._executor.shutdown(wait=False, cancel_futures=True)
