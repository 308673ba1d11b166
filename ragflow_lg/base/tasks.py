"""Tasks that go on beside others, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from typing import Any

RETRY_S = 5.0
"""A library can lose a cancellation, so a task is cancelled again after this time. Until then it may clean up: a
second cancellation would also cut what it awaits at its end, such as storing the tokens that were used."""


@contextmanager
def keep_cancellation() -> Generator[None]:
    """Raise CancelledError at the end of the block if the task has been cancelled in it.

    In Python 3.11, `asyncio.wait_for`, which redis-py and psycopg's pool use, loses a cancellation that comes together
    with the result. The one that cancelled the task would wait for ever for what it does next.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


async def end_task(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it ends. If it goes on, it is cancelled again every `RETRY_S`."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=RETRY_S)


@asynccontextmanager
async def running(work: Callable[[], Coroutine[Any, Any, object]], name: str) -> AsyncGenerator[None]:
    """Do some work beside the block, and cancel it at the end. The block does not learn of the work's errors."""
    task = asyncio.create_task(work(), name=name)
    try:
        yield
    finally:
        await end_task(task)  # unlike awaiting the task, this propagates a cancellation of the caller


async def work_until(work: Awaitable[object], stop: asyncio.Event, patience_s: float) -> None:
    """Do some work until it is done, the event is set or the time is over. Errors of the work are raised."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
    for task in (working, stopping):
        await end_task(task)
        with suppress(asyncio.CancelledError):
            task.result()


class SharedTask:
    """A task that serves several requests. It knows none of them: their contexts take memory, and their log names."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the task has been started, and has neither ended nor been told to."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start the task unless it is running."""
        if not self.is_running:
            self._task = asyncio.create_task(self._work(), context=Context())

    async def aclose(self) -> None:
        """End the task."""
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
