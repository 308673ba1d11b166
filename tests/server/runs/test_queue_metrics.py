import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ragflow_lg.server.runs import queue_metrics
from ragflow_lg.server.runs.queue_metrics import measuring_queue
from ragflow_lg.server.streaming.run_queue.fair_queue import QueueState


class Shown:
    """Metrics with the functions that return the values."""

    def show_queue(self, *functions: Any) -> None:
        self.functions = functions

    @property
    def values(self) -> list[float]:
        return [function() for function in self.functions]


async def test_runs_of_workers_that_have_all_died_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_metrics, "LOOK_S", 0.0)
    workers, now_ms = [True], [1000]

    async def state() -> QueueState:
        return QueueState(waiting=0, open=2)

    async def has_worker() -> bool:
        return workers[0]

    queue: Any = SimpleNamespace(line=SimpleNamespace(state=state), has_worker=has_worker)
    metrics: Any = Shown()
    async with measuring_queue(queue, metrics, lambda: now_ms[0]), asyncio.timeout(20):
        while metrics.values != [0, 2, 0.0]:
            await asyncio.sleep(0)
        workers[0] = False
        while metrics.values != [2, 0, 0.0]:
            await asyncio.sleep(0)
        now_ms[0] = 4000
        assert metrics.values == [2, 0, 3.0]
        workers[0] = True
        while metrics.values != [0, 2, 0.0]:
            await asyncio.sleep(0)
