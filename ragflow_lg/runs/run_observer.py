"""What is derived from the events of one run: calls of callbacks, the metrics of agents, and their trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragflow_lg.component.events import AgentRecord, EngineEvent
from ragflow_lg.component.plan import Plan
from ragflow_lg.runs.callbacks import CallbackDispatcher, CallbackSet, RunInfo, RunSummary
from ragflow_lg.runs.trace import Leased, NodeLog, TraceLog, TraceWriter
from ragflow_lg.services.agent_metrics import AgentMetrics

if TYPE_CHECKING:
    from ragflow_lg.services.sessions import RunRecord, SessionStore, StoreWork

NODE_LOG_DELAY_S = 1.0
"""How long a run plays before its nodes' log is first stored: short runs store it once, at their end."""


class CallObserver:
    """Observes the events of one run."""

    def __init__(self, plan: Plan, callbacks: CallbackSet, record: RunRecord, store: SessionStore | None) -> None:
        self._plan = plan
        self._callbacks = callbacks
        self._dispatcher: CallbackDispatcher | None = None
        self.agents = AgentMetrics()
        self.trace = TraceLog(plan)
        self._node_log = NodeLog()
        self._trace_writer = self._node_writer = None
        self._writers: list[TraceWriter] = []
        if store is not None:
            self._trace_writer = TraceWriter(store.traces, record, self.trace)
            self._node_writer = TraceWriter(store.node_logs, record, self._node_log, delay_s=NODE_LOG_DELAY_S)
            self._writers = [self._trace_writer, self._node_writer]

    def hold(self, leased: Leased) -> None:
        """Store the trace and the nodes' log in such blocks, as long as the run holds its session."""
        for writer in self._writers:
            writer.leased = leased

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
        elif self._node_writer is not None and self._node_log.add(event):
            self._node_writer.touch()
        if self._dispatcher is not None:
            self._dispatcher.event(event)

    async def flush_trace(self, *, is_lost: bool) -> None:
        """Store the remaining entries of the trace and of the nodes' log."""
        for writer in self._writers:
            await writer.close(is_lost=is_lost)

    async def last_works(self) -> list[StoreWork]:
        """Write no more. Return what stores the remaining entries of the trace and of the nodes' log."""
        return [writer.put for writer in self._writers if await writer.stop()]

    async def end(self, summary: RunSummary) -> None:
        """Report the end of the run."""
        if self._dispatcher is not None:
            dispatcher, self._dispatcher = self._dispatcher, None
            await dispatcher.close(summary)
