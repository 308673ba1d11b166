"""The length and the age of the queue, as metrics to scale workers by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.tasks import running

if TYPE_CHECKING:
    from ragflow_lg.server.observability.metrics import Metrics
    from ragflow_lg.server.streaming.run_queue.fair_queue import QueueState
    from ragflow_lg.server.streaming.run_queue.open_queue import RunQueue

LOOK_S = 1.0


@asynccontextmanager
async def measuring_queue(queue: RunQueue | None, metrics: Metrics, now_ms: Callable[[], int]) -> AsyncGenerator[None]:
    """Look at the queue at regular intervals during the block. Without a queue, there are no such metrics."""
    if queue is None:
        yield
        return
    state: QueueState | None = None
    left_ms = 0
    """When runs were first seen in play without any worker."""

    def age_s() -> float:
        return max(0.0, (now_ms() - state.oldest_ms) / 1000) if state is not None and state.oldest_ms else 0.0

    def waiting() -> int:
        return state.waiting if state is not None else 0

    def played() -> int:
        return state.open - state.waiting if state is not None else 0

    async def look_forever() -> None:
        nonlocal state, left_ms
        while True:
            with suppress(StreamError):
                found = await queue.line.state()
                is_left = found.open > found.waiting and not await queue.has_worker()
                left_ms = (left_ms or now_ms()) if is_left else 0
                if is_left:  # all workers have died, and none gave its runs back
                    found = found._replace(waiting=found.open, oldest_ms=found.oldest_ms or left_ms)
                state = found
            await asyncio.sleep(LOOK_S)

    metrics.show_queue(waiting, played, age_s)
    async with running(look_forever, "measure the queue"):
        yield
