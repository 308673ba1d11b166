"""Callbacks for deployments that count, log or forward the events of runs.

A callback receives node, agent and run events in order. Callbacks run concurrently with the run: if one is slow, fails
or hangs, this is logged and does not affect anything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.component.events import AgentRecord, EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

logger = logging.getLogger(__name__)


class RunInfo(Struct, frozen=True):
    """The identity of a run. All callback calls for a run receive the same object."""

    run_id: str
    """32 hexadecimal digits, RAGFlow's ``message_id``."""
    session: str
    """32 digits."""
    canvas_id: str
    """The id or name of the canvas, as known to the caller."""
    intent: str
    """``start``, ``resume`` or ``continue``."""
    started_at: float
    """Epoch seconds."""
    plan: Plan
    """The canvas, with the titles and components of its nodes."""


class RunSummary(Struct, frozen=True):
    """The result of a run. ``status`` is the final status of the `ragflow_lg.runs.run.Run`, never ``running``."""

    status: str
    error: str | None
    elapsed_s: float
    usage: Usage
    """The token usage of all models, including steps before a crash."""
    agents: AgentMetrics


class RunCallbacks(Protocol):
    """The base class for callbacks. Override the methods that you need; all arguments are read-only.

    If a run is refused because the session is busy or an answer is invalid, no method is called.
    """

    async def on_run_started(self, run: RunInfo) -> None:
        """Called when a run starts."""
        return None

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        """Called when a node starts."""
        return None

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        """Called when a node succeeds or fails."""
        return None

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        """Called when an agent calls its model or a tool, adds a thought, or finishes."""
        return None

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        """Called when the run ends, waits for the user or is stopped. Stopped nodes do not finish."""
        return None


class CallbackLimits(Struct, frozen=True):
    """Limits for slow callbacks."""

    timeout_s: float = 5.0
    """The time limit for one call, and for all remaining calls at the end of a run.

    A callback that takes longer is not called again for that run.
    """
    max_waiting: int = 10_000
    """Maximum number of queued events; further events are dropped, except the end of the run."""


DEFAULT_LIMITS = CallbackLimits()

_Call: TypeAlias = Callable[[], Awaitable[None]]

_METHODS: Mapping[type[Any], str] = {
    NodeStarted: "on_node_started",
    NodeFinished: "on_node_finished",
    AgentRecord: "on_agent_record",
}
"""The methods that receive engine events."""

_NAMES = ("on_run_started", *_METHODS.values(), "on_run_finished")


class CallbackDispatcher:
    """Passes a run's events to all callbacks, each at its own pace. Only `close` waits."""

    def __init__(
        self, callbacks: Sequence[RunCallbacks], run: RunInfo, limits: CallbackLimits, logged_ids: set[int]
    ) -> None:
        """Start a queue for each callback. ``logged_ids`` are callbacks with a logged failure, kept after the run."""
        self._run = run
        self._limits = limits
        self._queues = [_CallbackQueue(callback, limits, logged_ids) for callback in callbacks]
        for queue in self._queues:
            queue.enqueue("on_run_started", run)

    def event(self, event: EngineEvent) -> None:
        """Pass an event on, if callbacks receive this kind of event."""
        if (method := _METHODS.get(type(event))) is not None:
            for queue in self._queues:
                queue.enqueue(method, self._run, event)

    async def close(self, summary: RunSummary) -> None:
        """Report the end, and wait for the callbacks until the timeout."""
        for queue in self._queues:
            queue.enqueue("on_run_finished", self._run, summary, is_last=True)
        if tasks := [queue.task for queue in self._queues]:
            await asyncio.wait(tasks, timeout=self._limits.timeout_s)
        for queue in self._queues:
            queue.stop()


class _CallbackQueue:
    """One callback with its queue and the task that empties it."""

    def __init__(self, callback: RunCallbacks, limits: CallbackLimits, logged_ids: set[int]) -> None:
        self._callback = callback
        methods = {name: getattr(callback, name) for name in _NAMES}
        self._methods = {  # those that are overridden
            name: method
            for name, method in methods.items()
            if getattr(method, "__func__", None) is not getattr(RunCallbacks, name)
        }
        self._limits = limits
        self._logged_ids = logged_ids
        self._calls: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._has_timed_out = False
        self.task = asyncio.create_task(self._work())

    def enqueue(self, name: str, *arguments: Any, is_last: bool = False) -> None:
        """Call a method, unless it is the one of the base class, which does nothing."""
        method = self._methods.get(name)
        if method is not None and self._calls.qsize() >= self._limits.max_waiting and not is_last:
            self._log_once(f"is too slow: more than {self._limits.max_waiting:,} events are queued, some are dropped")
        elif method is not None:
            self._calls.put_nowait(partial(method, *arguments))
        if is_last:
            self._calls.put_nowait(None)

    def stop(self) -> None:
        if not self.task.done():
            self._log_once(f"did not finish within {self._limits.timeout_s:g} s")
            self.task.cancel()

    async def _work(self) -> None:
        while (call := await self._calls.get()) is not None:
            if not self._has_timed_out:
                await self._call(call)

    async def _call(self, call: _Call) -> None:
        limit = asyncio.timeout(self._limits.timeout_s)
        try:
            async with limit:
                await call()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._log_once("was cancelled from within", error)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            if limit.expired():
                self._has_timed_out = True
                self._log_once(f"took more than {self._limits.timeout_s:g} s and is not called again for this run")
            else:
                self._log_once("failed", error)

    def _log_once(self, problem: str, error: BaseException | None = None) -> None:
        """Log only a callback's first problem."""
        if id(self._callback) not in self._logged_ids:
            self._logged_ids.add(id(self._callback))
            logger.warning("The callback %s %s.", type(self._callback).__name__, problem, exc_info=error)


class CallbackSet(Struct, frozen=True):
    """A runner's callbacks."""

    callbacks: Sequence[RunCallbacks] = ()
    limits: CallbackLimits = DEFAULT_LIMITS
    logged_ids: set[int] = field(default_factory=set[int])
    """The Python ``id`` of each callback with a logged failure."""
