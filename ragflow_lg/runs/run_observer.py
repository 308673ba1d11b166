"""Everything that is told about a run beside its events: trace, metrics, callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ragflow_lg.component.events import AgentRecord, EngineEvent
from ragflow_lg.runs.callbacks import (
    DEFAULT_LIMITS,
    CallbackDispatcher,
    CallbackLimits,
    RunCallbacks,
    RunInfo,
    RunSummary,
)
from ragflow_lg.runs.trace import TraceKeeper, TraceLog
from ragflow_lg.services.agent_metrics import AgentMetrics

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.services.sessions import RunRecord, Traces

__all__ = ["CallbackSet", "RunObserver"]


class CallbackSet(Struct, frozen=True):
    """Who looks on at the runs of a runner."""

    callbacks: Sequence[RunCallbacks] = ()
    limits: CallbackLimits = DEFAULT_LIMITS
    complained: set[int] = field(default_factory=set[int])
    """Callbacks that have been logged, by ``id``."""


class RunObserver:
    """Takes the events of one run."""

    def __init__(self, plan: Plan, audience: CallbackSet, record: RunRecord, traces: Traces | None) -> None:
        self._plan = plan
        self._audience = audience
        self._relay: CallbackDispatcher | None = None
        self.agents = AgentMetrics()
        self.trace = TraceLog(plan)
        self._keeper = TraceKeeper(traces, record, self.trace) if traces is not None else None

    def begin(self, record: RunRecord, intent: str, started_at: float) -> None:
        """Tell that the run begins."""
        if self._audience.callbacks:
            run = RunInfo(record.run_id, record.session, record.canvas_id, intent, started_at, self._plan)
            self._relay = CallbackDispatcher(
                self._audience.callbacks, run, self._audience.limits, self._audience.complained
            )

    def note(self, event: EngineEvent) -> None:
        """Take an event."""
        if isinstance(event, AgentRecord):
            if event.metrics is not None:
                self.agents = self.agents.plus(event.metrics, is_nested=bool(event.caller))
            elif self.trace.add(event) and self._keeper is not None:
                self._keeper.touch()
        if self._relay is not None:
            self._relay.event(event)

    async def keep(self, *, is_lost: bool) -> None:
        """Write down what is not written yet."""
        if self._keeper is not None:
            await self._keeper.close(is_lost=is_lost)

    async def end(self, summary: RunSummary) -> None:
        """Tell that the run is over."""
        if self._relay is not None:
            relay, self._relay = self._relay, None
            await relay.close(summary)
