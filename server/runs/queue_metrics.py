"""The length and the age of the queue, as metrics to scale workers by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.tasks import running
from ragflow_lg.server.streaming.run_queue import QueueState

if TYPE_CHECKING:
    from ragflow_lg.server.observability.operations import Metrics
    from ragflow_lg.server.streaming.run_queue import RunQueue

LOOK_S = 1.0


@asynccontextmanager
async def measuring_queue(queue: RunQueue | None, metrics: Metrics, now_ms: Callable[[], int]) -> AsyncGenerator[None]:
    """Look at the queue at regular intervals during the block. Without a queue, there are no such metrics."""
    if queue is None:
        yield
        return
    state = QueueState()

    def age_s() -> float:
        return max(0.0, (now_ms() - state.oldest_ms) / 1000) if state.oldest_ms else 0.0

    async def look_forever() -> None:
        nonlocal state
        while True:
            with suppress(StreamError):
                state = await queue.state()
            await asyncio.sleep(LOOK_S)

    metrics.show_queue(lambda: len(state.waiting), lambda: state.played, age_s)
    async with running(look_forever, "measure the queue"):
        yield
