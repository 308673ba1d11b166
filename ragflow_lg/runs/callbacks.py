"""Callbacks for deployments that count, log or forward the events of runs.

A callback receives node, agent and run events in order. Callbacks run concurrently with the run: if one is slow, fails
or hangs, this is logged and does not affect anything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.component.events import AgentRecord, EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.runs.trace import TraceLog, TraceWriter
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.services.sessions import RunRecord, Traces


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
            queue.enqueue(lambda callback=queue.callback: callback.on_run_started(run))

    def event(self, event: EngineEvent) -> None:
        """Pass an event on, if callbacks receive this kind of event."""
        run = self._run
        for queue in self._queues:
            callback = queue.callback
            if isinstance(event, NodeStarted):
                queue.enqueue(lambda callback=callback, event=event: callback.on_node_started(run, event))
            elif isinstance(event, NodeFinished):
                queue.enqueue(lambda callback=callback, event=event: callback.on_node_finished(run, event))
            elif isinstance(event, AgentRecord):
                queue.enqueue(lambda callback=callback, event=event: callback.on_agent_record(run, event))

    async def close(self, summary: RunSummary) -> None:
        """Report the end, and wait for the callbacks until the timeout."""
        run = self._run
        for queue in self._queues:
            queue.enqueue(lambda callback=queue.callback: callback.on_run_finished(run, summary), is_last=True)
        await asyncio.wait([queue.task for queue in self._queues], timeout=self._limits.timeout_s)
        for queue in self._queues:
            queue.stop()


class _CallbackQueue:
    """One callback with its queue and worker task."""

    def __init__(self, callback: RunCallbacks, limits: CallbackLimits, logged_ids: set[int]) -> None:
        self.callback = callback
        self._limits = limits
        self._logged_ids = logged_ids
        self._calls: deque[_Call] = deque()
        self._wake = asyncio.Event()
        self._is_closed = False
        self._has_timed_out = False
        self.task = asyncio.create_task(self._work())

    def enqueue(self, call: _Call, *, is_last: bool = False) -> None:
        if len(self._calls) >= self._limits.max_waiting and not is_last:
            self._log_once(f"is too slow: more than {self._limits.max_waiting:,} events are queued, some are dropped")
        elif not self._has_timed_out:
            self._calls.append(call)
        self._is_closed = self._is_closed or is_last
        self._wake.set()

    def stop(self) -> None:
        if not self.task.done():
            self._log_once(f"did not finish within {self._limits.timeout_s:g} s")
            self.task.cancel()

    async def _work(self) -> None:
        while not self._has_timed_out:
            while self._calls and not self._has_timed_out:
                await self._call(self._calls.popleft())
            if self._is_closed:
                return
            self._wake.clear()
            await self._wake.wait()
        self._calls.clear()

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
        if id(self.callback) not in self._logged_ids:
            self._logged_ids.add(id(self.callback))
            logger.warning("The callback %s %s.", type(self.callback).__name__, problem, exc_info=error)


class CallbackSet(Struct, frozen=True):
    """A runner's callbacks."""

    callbacks: Sequence[RunCallbacks] = ()
    limits: CallbackLimits = DEFAULT_LIMITS
    logged_ids: set[int] = field(default_factory=set[int])
    """The Python ``id`` of each callback with a logged failure."""


class RunObserver:
    """Observes the events of one run."""

    def __init__(self, plan: Plan, callbacks: CallbackSet, record: RunRecord, traces: Traces | None) -> None:
        self._plan = plan
        self._callbacks = callbacks
        self._dispatcher: CallbackDispatcher | None = None
        self.agents = AgentMetrics()
        self.trace = TraceLog(plan)
        self._trace_writer = TraceWriter(traces, record, self.trace) if traces is not None else None

    def begin(self, record: RunRecord, intent: str, started_at: float) -> None:
        """Report the start of the run."""
        if self._callbacks.callbacks:
            run = RunInfo(record.run_id, record.session, record.canvas_id, intent, started_at, self._plan)
            self._dispatcher = CallbackDispatcher(
                self._callbacks.callbacks, run, self._callbacks.limits, self._callbacks.logged_ids
            )

    def observe(self, event: EngineEvent) -> None:
        """Process an event."""
        if isinstance(event, AgentRecord):
            if event.metrics is not None:
                self.agents = self.agents.plus(event.metrics, is_nested=bool(event.caller))
            elif self.trace.add(event) and self._trace_writer is not None:
                self._trace_writer.touch()
        if self._dispatcher is not None:
            self._dispatcher.event(event)

    async def flush_trace(self, *, is_lost: bool) -> None:
        """Store the remaining trace entries."""
        if self._trace_writer is not None:
            await self._trace_writer.close(is_lost=is_lost)

    async def end(self, summary: RunSummary) -> None:
        """Report the end of the run."""
        if self._dispatcher is not None:
            dispatcher, self._dispatcher = self._dispatcher, None
            await dispatcher.close(summary)
