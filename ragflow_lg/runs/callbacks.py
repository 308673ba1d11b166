"""Looking on while canvases run: what a deployment counts, logs or sends elsewhere.

A callback is told of nodes, of what agents do and of the end of a run, in the order in which it happens. It runs beside
the run: one that is slow, fails or hangs is logged and harms nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.component.events import AgentRecord, EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import Plan
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

__all__ = ["DEFAULT_LIMITS", "CallbackLimits", "CallbackDispatcher", "RunCallbacks", "RunInfo", "RunSummary"]

logger = logging.getLogger(__name__)


class RunInfo(Struct, frozen=True):
    """Which run it is. The same object in all calls of a run."""

    run_id: str
    """32 digits, RAGFlow's ``message_id``."""
    session: str
    """32 digits."""
    canvas_id: str
    """Under which the canvas is known to whoever started the run."""
    intent: str
    """``start``, ``resume`` or ``continue``."""
    started_at: float
    """Epoch seconds."""
    plan: Plan
    """The canvas: titles and components of its nodes."""


class RunSummary(Struct, frozen=True):
    """How a run ended. ``status`` is that of `ragflow_lg.runs.run.Run`, never ``running``."""

    status: str
    error: str | None
    elapsed_s: float
    usage: Usage
    """What all models were asked, steps from before a crash included."""
    agents: AgentMetrics


class RunCallbacks(Protocol):
    """Is told what happens. Subclasses override what they want to know; what they are given is only to be read.

    A run that is refused, because somebody else has the session or an answer does not fit, tells nothing.
    """

    async def on_run_started(self, run: RunInfo) -> None:
        """A run begins."""
        return None

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        """A node begins its work."""
        return None

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        """A node is done, well or not."""
        return None

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        """An agent asked its model, called a tool, had a thought, or is done."""
        return None

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        """The run is over, waits for its user, or was stopped. Nodes that were stopped with it have told no end."""
        return None


class CallbackLimits(Struct, frozen=True):
    """How much patience there is with callbacks."""

    timeout_s: float = 5.0
    """For one call, and for all that is left at the end of a run. Who takes longer hears no more of that run."""
    max_waiting: int = 10_000
    """How many events may wait for a slow one; more are dropped, but for the end of the run."""


DEFAULT_LIMITS = CallbackLimits()

_Call: TypeAlias = Callable[[], Awaitable[None]]


class CallbackDispatcher:
    """Passes what happens in one run to all callbacks, each at its own pace. It never waits, but at the end."""

    def __init__(
        self, callbacks: Sequence[RunCallbacks], run: RunInfo, limits: CallbackLimits, complained: set[int]
    ) -> None:
        """``complained`` holds the callbacks (by ``id``) that have been logged; it outlives the run."""
        self._run = run
        self._limits = limits
        self._listeners = [_CallbackQueue(callback, limits, complained) for callback in callbacks]
        for listener in self._listeners:
            listener.tell(lambda told=listener.callback: told.on_run_started(run))

    def event(self, event: EngineEvent) -> None:
        """Pass an event on, if callbacks are told of its kind."""
        run = self._run
        for listener in self._listeners:
            told = listener.callback
            if isinstance(event, NodeStarted):
                listener.tell(lambda told=told, event=event: told.on_node_started(run, event))
            elif isinstance(event, NodeFinished):
                listener.tell(lambda told=told, event=event: told.on_node_finished(run, event))
            elif isinstance(event, AgentRecord):
                listener.tell(lambda told=told, event=event: told.on_agent_record(run, event))

    async def close(self, summary: RunSummary) -> None:
        """Tell the end, and wait for the callbacks, but not for long."""
        run = self._run
        for listener in self._listeners:
            listener.tell(lambda told=listener.callback: told.on_run_finished(run, summary), is_last=True)
        await asyncio.wait([listener.task for listener in self._listeners], timeout=self._limits.timeout_s)
        for listener in self._listeners:
            listener.stop()


class _CallbackQueue:
    """One callback, its queue and the task that works it off."""

    def __init__(self, callback: RunCallbacks, limits: CallbackLimits, complained: set[int]) -> None:
        self.callback = callback
        self._limits = limits
        self._complained = complained
        self._calls: deque[_Call] = deque()
        self._wake = asyncio.Event()
        self._is_closed = False
        self._is_deaf = False
        self.task = asyncio.create_task(self._work())

    def tell(self, call: _Call, *, is_last: bool = False) -> None:
        if len(self._calls) >= self._limits.max_waiting and not is_last:
            self._complain(f"is too slow: more than {self._limits.max_waiting:,} events wait for it, some are dropped")
        elif not self._is_deaf:
            self._calls.append(call)
        self._is_closed = self._is_closed or is_last
        self._wake.set()

    def stop(self) -> None:
        if not self.task.done():
            self._complain(f"did not come to an end within {self._limits.timeout_s:g} s")
            self.task.cancel()

    async def _work(self) -> None:
        while not self._is_deaf:
            while self._calls and not self._is_deaf:
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
            self._complain("was cancelled from within", error)
        except Exception as error:  # noqa: BLE001 - foreign code, whatever it does
            if limit.expired():
                self._is_deaf = True
                self._complain(f"took more than {self._limits.timeout_s:g} s and hears no more of this run")
            else:
                self._complain("failed", error)

    def _complain(self, what: str, error: BaseException | None = None) -> None:
        """Log a callback once, not again with every event."""
        if id(self.callback) not in self._complained:
            self._complained.add(id(self.callback))
            logger.warning("The callback %s %s.", type(self.callback).__name__, what, exc_info=error)
