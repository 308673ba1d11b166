"""The service that runs worker tasks (`ragflow_lg.base.worker_tasks`) in processes that can be killed."""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

from ragflow_lg.base.worker_tasks import WorkerTask

P = ParamSpec("P")
T = TypeVar("T")


class Workers(Protocol):
    """Runs tasks in worker processes."""

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task and return its result; small ones run in the event loop. Cancelling kills the worker.

        Raises:
            WorkLimitError: if it takes too much time or memory, or ends its process.
            RagflowLgError: if the task raises it.
        """
        ...


class NoWorkers:
    """The `Workers` of programs that trust their input: every task runs in the event loop."""

    async def run(self, task: WorkerTask[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task."""
        return task(*args, **kwargs)
