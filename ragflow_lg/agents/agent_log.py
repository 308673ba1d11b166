"""What an agent tells about itself while it works: records, and at its end the metrics.

Every strategy works through `ragflow_lg.agents.agent_run.AgentRun`, which writes this log; so all tell the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import AgentRecord, AgentRecordKind
from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics, usage_json
from ragflow_lg.services.chat import ChatAnswer, ChatModel, Usage

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_tool import Outcome
    from ragflow_lg.component.context import RunContext

__all__ = ["CITATIONS", "QUESTION", "AgentLog", "IterationLog", "ToolLog", "agent_log_of"]

QUESTION = "Multi-turn conversation optimization"
"""Title of the note that the question was rewritten; RAGFlow's name in its trace."""

CITATIONS = "gen_citations"
"""Title of the note that citations were put into the answer; RAGFlow's name in its trace."""

_UNKNOWN = "(unknown)"
"""Where calls of tools that there are not are counted: a model may make up any number of names."""


def agent_log_of(ctx: RunContext) -> AgentLog:
    """Give the log of the agent that works in this visit, begun if there is none."""
    if isinstance(ctx.agent_log, AgentLog):
        return ctx.agent_log
    log = ctx.agent_log = AgentLog(ctx)
    return log


class AgentLog:
    """The log of one agent at work. What it hands out is without secrets and bounded."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._clock = ctx.services.clock
        self._began = self._clock.monotonic()
        self._iterations = 0
        self._done = AgentMetrics(visits=1)

    def now(self) -> float:
        """Give seconds that never go back."""
        return self._clock.monotonic()

    def iteration(self, model: ChatModel, step: str) -> IterationLog:
        """Take up a round of the model. ``step`` is the strategy's own name for it."""
        self._iterations += 1
        return IterationLog(self, self._iterations, self._model_name(model), step)

    def tool(self, name: str, index: int, step: str, call_id: str) -> ToolLog:
        """Take up a call of a tool, the ``index``-th of the last round."""
        base: dict[str, JsonValue] = {
            "iteration": self._iterations,
            "position": index,
            "step": step,
            "call_id": self.shown(call_id, 200),
        }
        return ToolLog(self, self.shown(name, 200), base)

    async def thought(self, text: str, *, is_replayed: bool = False) -> None:
        """Tell a thought of the model; nothing where it is blank."""
        if shown := text.strip():
            details = {"iteration": self._iterations, "text": self.shown(shown)}
            await self.tell("thought", details, is_replayed=is_replayed)

    async def note(
        self, title: str, result: JsonValue, seconds: float, usage: Usage, *, is_replayed: bool = False
    ) -> None:
        """Tell of work around the rounds; ``usage`` is what the model was asked for it."""
        if is_replayed:
            self.count(AgentMetrics(replayed=1, replayed_usage=usage))
        else:
            self.count(AgentMetrics(model_s=seconds, usage=usage))
        details = {"title": title, "result": self.shown(result), "seconds": seconds, "usage": usage_json(usage)}
        await self.tell("note", details, is_replayed=is_replayed)

    async def finish(self) -> None:
        """Tell the metrics: the agent is done, well or not."""
        self.count(AgentMetrics(total_s=self.now() - self._began))
        self._ctx.agent_log = None
        await self.tell("agent_finished", self._done.data(), metrics=self._done)

    def count(self, metrics: AgentMetrics) -> None:
        """Add what was done."""
        self._done = self._done.plus(metrics)

    def shown(self, value: object, limit: int = 0) -> Any:
        """Give a value as others may see it."""
        presenter = self._ctx.redacted_view
        return presenter.value(value, limit) if limit else presenter.value(value)

    async def tell(
        self,
        kind: AgentRecordKind,
        details: Mapping[str, JsonValue],
        *,
        is_replayed: bool = False,
        metrics: AgentMetrics | None = None,
    ) -> None:
        """Hand a record out."""
        ctx = self._ctx
        now = self._clock.now()
        record = AgentRecord(ctx.owner, ctx.node.id, ctx.visit, ctx.caller, kind, now, details, is_replayed, metrics)
        await ctx.emit(record, even_if_cancelled=metrics is not None)

    def _model_name(self, model: ChatModel) -> str:
        given = getattr(self._ctx.node.params, "llm_id", "") or ""
        return self.shown(str(getattr(model, "name", "") or given or "default"), 200)


class IterationLog:
    """One round of the model."""

    def __init__(self, log: AgentLog, number: int, model: str, step: str) -> None:
        self._log = log
        self._details: dict[str, JsonValue] = {"iteration": number, "model": model, "step": step}
        self._began = 0.0
        self._is_begun = False

    async def begin(self, *, is_replayed: bool = False) -> None:
        """Tell that the model is asked now."""
        self._is_begun = True
        self._began = self._log.now()
        await self._log.tell("iteration_started", self._details, is_replayed=is_replayed)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self._log.now() - self._began

    async def end(self, answer: ChatAnswer, seconds: float) -> None:
        """Tell what came; a round that was not begun is one whose answer was there already."""
        is_replayed = not self._is_begun
        if is_replayed:
            await self.begin(is_replayed=True)
            self._log.count(AgentMetrics(replayed=1, replayed_usage=answer.usage))
        else:
            self._log.count(AgentMetrics(model_s=seconds, iterations=1, usage=answer.usage))
        thought, said = _parts(answer.text)
        if answer.calls:  # what is said beside calls is no answer yet
            thought = f"{thought}\n{said}"
        await self._log.thought(thought, is_replayed=is_replayed)
        calls = [self._log.shown(call.name, 200) for call in answer.calls[:100]]
        details = {**self._details, "seconds": seconds, "usage": usage_json(answer.usage), "calls": calls}
        await self._log.tell("iteration_finished", details, is_replayed=is_replayed)

    async def fail(self, error: Exception) -> None:
        """Tell that the model gave no answer."""
        seconds = self.seconds if self._is_begun else 0.0
        self._log.count(AgentMetrics(model_s=seconds, iterations=1, failed_iterations=1))
        details = {**self._details, "seconds": seconds, "error": self._log.shown(str(error), 2_000)}
        await self._log.tell("iteration_failed", details)


class ToolLog:
    """One call of a tool."""

    def __init__(self, log: AgentLog, name: str, base: Mapping[str, JsonValue]) -> None:
        self._log = log
        self._name = name
        self._base = base
        self._details: dict[str, JsonValue] = {}
        self._began = 0.0

    async def begin(self, title: str, arguments: JsonValue, *, is_replayed: bool = False) -> None:
        """Tell that the tool is called now."""
        self._began = self._log.now()
        shown = {"tool": self._name, "title": self._log.shown(title, 200), "arguments": self._log.shown(arguments)}
        self._details = {**self._base, **shown}
        await self._log.tell("tool_started", self._details, is_replayed=is_replayed)

    @property
    def is_begun(self) -> bool:
        """Whether `begin` was called."""
        return bool(self._details)

    async def end(self, outcome: Outcome, *, was_called: bool = True, is_replayed: bool = False) -> None:
        """Tell what came of it."""
        seconds = outcome.seconds if is_replayed else self._log.now() - self._began
        if is_replayed:
            self._log.count(AgentMetrics(replayed=1))
        else:
            took = ToolMetrics(1, int(outcome.is_error), seconds)
            name = self._name if self._details["title"] else _UNKNOWN
            self._log.count(AgentMetrics(tool_s=seconds, tools={name: took}))
        if outcome.is_error:
            error = self._log.shown(outcome.value)
            details = {**self._details, "error": error, "seconds": seconds, "was_called": was_called}
            await self._log.tell("tool_failed", details, is_replayed=is_replayed)
        else:
            details = {**self._details, "result": self._log.shown(outcome.value), "seconds": seconds}
            await self._log.tell("tool_finished", details, is_replayed=is_replayed)


def _parts(text: str) -> tuple[str, str]:
    """Give what an answer has within thinking sections, and the rest."""
    parts: dict[bool, list[str]] = {True: [], False: []}
    is_thinking = False
    for piece, mark in split_thinking(text):
        is_thinking = mark == "start" if mark else is_thinking
        parts[is_thinking].append(piece)
    return "".join(parts[True]).strip(), "".join(parts[False]).strip()
