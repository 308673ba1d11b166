"""Workers that note which tasks would have left the event loop."""

from __future__ import annotations

from typing import ParamSpec, TypeVar

from ragflow_lg.base.worker_tasks import WorkerTask

P = ParamSpec("P")
T = TypeVar("T")


class CountedWorkers:
    """A `ragflow_lg.services.workers.Workers` that runs all tasks in this thread. ``names`` has those of large ones."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not task.is_small(*args, **kwargs):
            self.names.append(task.name)
        return task(*args, **kwargs)
