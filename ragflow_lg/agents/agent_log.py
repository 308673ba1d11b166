"""An agent's log: records of its rounds and calls, and metrics at the end.

Every strategy works through `ragflow_lg.agents.agent_run.AgentLoop`, which writes this log, so all strategies emit the
same records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.events import AgentRecord, AgentRecordKind
from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics, usage_json
from ragflow_lg.services.chat import ChatAnswer, ChatModel, Usage

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_tool import Outcome

QUESTION_NOTE = "Multi-turn conversation optimization"
"""Title of the note about a rewritten question; RAGFlow's name in its trace."""

CITATIONS_NOTE = "gen_citations"
"""Title of the note about citations added to the answer; RAGFlow's name in its trace."""

MAX_FILES = 20
"""How many of a call's files are recorded."""

_UNKNOWN = "(unknown)"
"""Metrics key for calls to nonexistent tools: a model can invent any number of names."""


def agent_log_of(ctx: RunContext) -> AgentLog:
    """Return the log of the agent that runs in this visit, creating it if necessary."""
    if isinstance(ctx.agent_log, AgentLog):
        return ctx.agent_log
    log = ctx.agent_log = AgentLog(ctx)
    return log


class AgentLog:
    """The log of one agent. Everything it emits is redacted and limited in size."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._clock = ctx.services.clock
        self._start = self._clock.monotonic()
        self._iterations = 0
        self._metrics = AgentMetrics(visits=1)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    def new_iteration(self, model: ChatModel, step: str) -> IterationLog:
        """Create the log for the next model round. ``step`` is the strategy's name for it."""
        self._iterations += 1
        return IterationLog(self, self._iterations, self._model_name(model), step)

    def new_tool_call(self, name: str, index: int, step: str, call_id: str) -> ToolLog:
        """Create the log for a tool call, the ``index``-th in the last round."""
        base: dict[str, JsonValue] = {
            "iteration": self._iterations,
            "position": index,
            "step": step,
            "call_id": self.redact(call_id, 200),
        }
        return ToolLog(self, self.redact(name, 200), base)

    async def record_thought(self, text: str, *, is_replayed: bool) -> None:
        """Emit one of the model's thoughts unless it is blank."""
        if thought := text.strip():
            details = {"iteration": self._iterations, "text": self.redact(thought)}
            await self.emit("thought", details, is_replayed=is_replayed)

    async def record_note(
        self, title: str, result: JsonValue, seconds: float, usage: Usage, *, is_replayed: bool = False
    ) -> None:
        """Emit a note about work outside the rounds; ``usage`` covers the model calls it required."""
        if is_replayed:
            self.count(AgentMetrics(replayed=1, replayed_usage=usage))
        else:
            self.count(AgentMetrics(model_s=seconds, usage=usage))
        details = {"title": title, "result": self.redact(result), "seconds": seconds, "usage": usage_json(usage)}
        await self.emit("note", details, is_replayed=is_replayed)

    async def finish(self) -> None:
        """Emit the metrics. Called when the agent has ended, whether or not it succeeded."""
        self.count(AgentMetrics(total_s=self.now() - self._start))
        self._ctx.agent_log = None
        await self.emit("agent_finished", self._metrics.data(), metrics=self._metrics)

    def count(self, metrics: AgentMetrics) -> None:
        """Add to the metrics."""
        self._metrics = self._metrics.plus(metrics)

    def redact(self, value: object, limit: int = 0) -> Any:
        """Return a value with secrets removed, limited to ``limit`` characters or the default size."""
        view = self._ctx.redacted_view
        return view.value(value, limit) if limit else view.value(value)

    async def emit(
        self,
        kind: AgentRecordKind,
        details: Mapping[str, JsonValue],
        *,
        is_replayed: bool = False,
        metrics: AgentMetrics | None = None,
    ) -> None:
        """Emit a record. Metrics are emitted even if the run is cancelled."""
        ctx = self._ctx
        now = self._clock.now()
        record = AgentRecord(ctx.owner, ctx.node.id, ctx.visit, ctx.caller, kind, now, details, is_replayed, metrics)
        await ctx.emit(record, even_if_cancelled=metrics is not None)

    def _model_name(self, model: ChatModel) -> str:
        llm_id = getattr(self._ctx.node.params, "llm_id", "") or ""
        return self.redact(str(getattr(model, "name", "") or llm_id or "default"), 200)


class IterationLog:
    """The log of one model round."""

    def __init__(self, log: AgentLog, number: int, model: str, step: str) -> None:
        self._log = log
        self._details: dict[str, JsonValue] = {"iteration": number, "model": model, "step": step}
        self._start = 0.0
        self._has_begun = False

    async def begin(self, *, is_replayed: bool = False) -> None:
        """Emit the start of the model call."""
        self._has_begun = True
        self._start = self._log.now()
        await self._log.emit("iteration_started", self._details, is_replayed=is_replayed)

    @property
    def seconds(self) -> float:
        """Time since `begin`."""
        return self._log.now() - self._start

    async def end(self, answer: ChatAnswer, seconds: float) -> None:
        """Emit the answer. If `begin` was not called, the answer was stored and counts as replayed."""
        is_replayed = not self._has_begun
        if is_replayed:
            await self.begin(is_replayed=True)
            self._log.count(AgentMetrics(replayed=1, replayed_usage=answer.usage))
        else:
            self._log.count(AgentMetrics(model_s=seconds, iterations=1, usage=answer.usage))
        thought, text = map(str.strip, split_thoughts(answer.text))
        if answer.calls:  # text that accompanies calls is not an answer
            thought = f"{thought}\n{text}"
        await self._log.record_thought(thought, is_replayed=is_replayed)
        calls = [self._log.redact(call.name, 200) for call in answer.calls[:100]]
        details = {**self._details, "seconds": seconds, "usage": usage_json(answer.usage), "calls": calls}
        await self._log.emit("iteration_finished", details, is_replayed=is_replayed)

    async def fail(self, error: Exception) -> None:
        """Emit the failure of the model call."""
        seconds = self.seconds if self._has_begun else 0.0
        self._log.count(AgentMetrics(model_s=seconds, iterations=1, failed_iterations=1))
        details = {**self._details, "seconds": seconds, "error": self._log.redact(str(error), 2_000)}
        await self._log.emit("iteration_failed", details)


class ToolLog:
    """The log of one tool call."""

    def __init__(self, log: AgentLog, name: str, base: Mapping[str, JsonValue]) -> None:
        self._log = log
        self._name = name
        self._base = base
        self._details: dict[str, JsonValue] = {}
        self._start = 0.0

    async def begin(self, title: str, arguments: JsonValue, *, is_replayed: bool = False) -> None:
        """Emit the start of the call."""
        self._start = self._log.now()
        call = {"tool": self._name, "title": self._log.redact(title, 200), "arguments": self._log.redact(arguments)}
        self._details = {**self._base, **call}
        await self._log.emit("tool_started", self._details, is_replayed=is_replayed)

    @property
    def has_begun(self) -> bool:
        """Whether `begin` was called."""
        return bool(self._details)

    async def end(self, outcome: Outcome, *, was_called: bool = True, is_replayed: bool = False) -> None:
        """Emit the outcome. ``was_called`` is false if no tool was reached."""
        seconds = outcome.seconds if is_replayed else self._log.now() - self._start
        if is_replayed:
            self._log.count(AgentMetrics(replayed=1))
        else:
            metrics = ToolMetrics(1, int(outcome.is_error), seconds)
            name = self._name if self._details["title"] else _UNKNOWN
            self._log.count(AgentMetrics(tool_s=seconds, tools={name: metrics}))
        if outcome.is_error:
            error = self._log.redact(outcome.value)
            details = {**self._details, "error": error, "seconds": seconds, "was_called": was_called}
            await self._log.emit("tool_failed", details, is_replayed=is_replayed)
        else:
            details = {**self._details, "result": self._log.redact(outcome.value), "seconds": seconds}
            if outcome.artifacts:
                details["files"] = self._log.redact([*outcome.artifacts][:MAX_FILES])
            await self._log.emit("tool_finished", details, is_replayed=is_replayed)
