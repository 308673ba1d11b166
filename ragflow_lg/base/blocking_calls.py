"""Asynchronous code for callers that block: one event loop in a thread of its own, which all of them share.

Clients and caches belong to the loop that opened them. With one loop they are kept between calls.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing, suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

MAX_AHEAD = 64
"""Maximum number of items that `iterate_blocking` keeps."""

POLL_S = 0.002
"""How often a generator that is so far ahead looks whether items have been taken."""

_END: Any = object()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the shared loop with the caller's context variables, and return its result.

    It also works in a notebook, where the thread of the caller has a running loop. If the caller is interrupted, the
    coroutine is cancelled.

    Raises:
        RuntimeError: if the caller runs in the shared loop itself, which would wait for itself.
    """
    result = _start(coroutine)
    try:
        return result.result()
    except BaseException:
        result.cancel()
        raise


def iterate_blocking(iterator: AsyncGenerator[T]) -> Iterator[T]:
    """Yield what an asynchronous generator yields, which runs in one task of the shared loop.

    The generator is at most `MAX_AHEAD` items ahead. If the caller stops early, it is closed.

    Raises:
        RuntimeError: if the caller runs in the shared loop itself.
    """
    items: SimpleQueue[T] = SimpleQueue()

    async def pump() -> None:
        async with aclosing(iterator):
            async for item in iterator:
                items.put(item)
                while items.qsize() >= MAX_AHEAD:  # noqa: ASYNC110 - its other end has no event loop
                    await asyncio.sleep(POLL_S)

    result = _start(pump())
    result.add_done_callback(lambda _: items.put(_END))
    try:
        while (item := items.get()) is not _END:
            yield item
        result.result()
    finally:
        result.cancel()
        wait([result])


def _start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a task in the shared loop. To cancel its result cancels the task."""
    with _opening:
        loop, thread = _shared_loop()
    if thread is threading.current_thread():
        coroutine.close()
        raise RuntimeError("A blocking call inside asynchronous code waits for itself: use the asynchronous method.")
    return asyncio.run_coroutine_threadsafe(coroutine, loop)


@cache
def _shared_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Return the shared loop, and its thread, which ends with the process."""
    loop = asyncio.new_event_loop()

    def serve() -> None:
        while True:
            with suppress(SystemExit, KeyboardInterrupt):  # a call gets its own, and the loop serves the others
                loop.run_forever()

    thread = threading.Thread(target=serve, name="ragflow-lg-blocking-calls", daemon=True)
    thread.start()
    return loop, thread


_opening = threading.Lock()


def _forget() -> None:
    """Forget the loop, and the lock, which another thread may have held when the process was forked."""
    global _opening
    _opening = threading.Lock()
    _shared_loop.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # a forked process has no copy of the thread
