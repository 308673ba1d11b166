"""Asynchronous code for callers that block: one event loop in a thread of its own, which all of them share.

Clients and caches belong to the loop that opened them. With one loop they are kept between calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

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
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())

    loop.call_soon_threadsafe(start)
    try:
        return result.result()
    except BaseException:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
        raise


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
