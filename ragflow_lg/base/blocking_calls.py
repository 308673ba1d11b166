"""Asynchronous code for callers that block: one event loop in a thread of its own, which all of them share.

Clients and caches belong to the loop that opened them. With one loop they are kept between calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing
from contextvars import copy_context
from queue import Empty, Queue
from typing import Any, TypeVar, cast

T = TypeVar("T")

MAX_AHEAD = 64
"""Maximum number of items that `iterate_blocking` keeps."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the shared loop with the caller's context variables, and return its result.

    It also works in a notebook, where the thread of the caller has a running loop. If the caller is interrupted, the
    coroutine is cancelled.

    Raises:
        RuntimeError: if the caller runs in the shared loop itself, which would wait for itself.
    """
    result, cancel = _start(coroutine)
    try:
        return result.result()
    except BaseException:
        cancel()
        raise


def iterate_blocking(iterator: AsyncGenerator[T]) -> Iterator[T]:
    """Yield what an asynchronous generator yields, which runs in one task of the shared loop.

    The generator is at most `MAX_AHEAD` items ahead. If the caller stops early, it is closed.

    Raises:
        RuntimeError: if the caller runs in the shared loop itself.
    """
    items: Queue[T] = Queue()
    permits = threading.Semaphore(0)
    space: list[asyncio.Semaphore] = []

    async def pump() -> None:
        free = asyncio.Semaphore(MAX_AHEAD)
        space.append(free)
        async with aclosing(iterator):
            async for item in iterator:
                await free.acquire()
                items.put(item)
                permits.release()

    result, cancel = _start(pump())
    result.add_done_callback(lambda _: permits.release())  # wakes the caller after the last item
    loop = _shared_loop()
    try:
        while True:
            permits.acquire()
            try:
                item = items.get_nowait()
            except Empty:
                result.result()
                return
            yield item
            loop.call_soon_threadsafe(space[0].release)
    finally:
        cancel()
        wait([result])


def _start(coroutine: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], None]]:
    """Start a task in the shared loop. Return its result, and a function that cancels it."""
    loop = _shared_loop()
    if threading.current_thread() is _thread:
        coroutine.close()
        raise RuntimeError("A blocking call inside asynchronous code waits for itself: use the asynchronous method.")
    result: Future[T] = Future()
    tasks: list[asyncio.Task[T]] = []
    context = copy_context()

    def start() -> None:
        task = loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(finish)

    def finish(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            result.cancel()
            result.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    loop.call_soon_threadsafe(start)
    return result, lambda: cast("None", loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks]))


def _shared_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="ragflow-lg-blocking-calls", daemon=True)
            _thread.start()
        return _loop


def _forget() -> None:
    """Forget the loop in a forked process, which has no copy of its thread."""
    global _loop, _thread, _lock
    _loop = _thread = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
