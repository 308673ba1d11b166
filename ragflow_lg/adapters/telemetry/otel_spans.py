"""OpenTelemetry spans of runs, their nodes, agent iterations, model calls and tool calls.

Attribute names follow the semantic conventions for generative AI where one exists, and start with ``ragflow_lg.``
otherwise. Span times are the times of the events, even if this callback runs late.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct, field

from ragflow_lg.adapters.chat.model_resolution import parse_llm_id
from ragflow_lg.base.errors import CANCELLED_TEXT, SettingsError
from ragflow_lg.base.extras import install_command
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import AgentRecord, NodeFinished, NodeStarted
from ragflow_lg.runs.callbacks import RunCallbacks, RunInfo, RunSummary
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

Attributes: TypeAlias = dict[str, str | int | float | bool]
_Key: TypeAlias = tuple[str, ...]


class _OpenSpans(Struct):
    """The open spans of one run."""

    run: Span
    last: float
    """The latest event time in epoch seconds."""
    by_key: dict[_Key, list[Span]] = field(default_factory=dict[_Key, list[Any]])
    """A key has several spans while iterations of a region run concurrently."""
    agents: set[int] = field(default_factory=set[int])
    """Visits with a running agent."""

    def add(self, key: _Key, span: Span) -> None:
        self.by_key.setdefault(key, []).append(span)

    def find(self, *key: str) -> Span | None:
        spans = self.by_key.get(key)
        return spans[0] if spans else None

    def take(self, *key: str) -> Span | None:
        spans = self.by_key.get(key)
        span = spans.pop(0) if spans else None
        if spans is not None and not spans:
            del self.by_key[key]
        return span

    def take_all(self, visit: int | None = None) -> Iterator[Span]:
        """Remove and yield all spans, or those within a visit, the innermost first."""
        for key in reversed(list(self.by_key)):
            if visit is None or (key[0] != "node" and key[1] == str(visit)):
                yield from reversed(self.by_key.pop(key))


class OtelSpans(RunCallbacks):
    """Run callbacks that create spans. A run's parent is the span that is current when the iteration over it starts."""

    def __init__(self, provider: TracerProvider | None = None, *, include_content: bool = False) -> None:
        """Use the global tracer provider if ``provider`` is None.

        ``include_content`` adds texts to the spans: arguments, results, thoughts and errors.

        Raises:
            SettingsError: if OpenTelemetry is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError:
            raise SettingsError(f"OpenTelemetry is not installed: {install_command('otel')}.") from None
        self._api = trace
        self._tracer: Tracer = trace.get_tracer("ragflow_lg", tracer_provider=provider)
        self._include_content = include_content
        self._runs: dict[str, _OpenSpans] = {}

    @property
    def tracer(self) -> Tracer:
        """The tracer that creates the spans."""
        return self._tracer

    # Events of a run

    async def on_run_started(self, run: RunInfo) -> None:
        """Start the span of a run."""
        name = PurePath(run.canvas_id).stem if run.canvas_id else ""
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.conversation.id": run.session,
            "ragflow_lg.run.id": run.run_id,
            "ragflow_lg.run.intent": run.intent,
            "ragflow_lg.canvas.hash": run.plan.canvas_hash,
        }
        if name:
            attributes["gen_ai.workflow.name"] = name
        span = self._tracer.start_span(
            f"invoke_workflow {name}".strip(), attributes=attributes, start_time=_ns(run.started_at)
        )
        self._runs[run.run_id] = _OpenSpans(span, run.started_at)

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        """Start the span of a node."""
        if (spans := self._runs.get(run.run_id)) is None:
            return
        spans.last = max(spans.last, event.created_at)
        node = run.plan.nodes[event.node]
        attributes: Attributes = {"ragflow_lg.node.id": node.id, "ragflow_lg.node.component": node.spec.name}
        if node.title:
            attributes["ragflow_lg.node.title"] = node.title
        if node.parent is not None:
            attributes["ragflow_lg.node.region"] = node.parent
        name = f"{node.spec.name} {node.title or node.id}"
        spans.add(_node_key(event), self._child(spans.run, name, attributes, event.created_at))

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        """End the span of a node and the spans that its agent left open."""
        if (spans := self._runs.get(run.run_id)) is None or (span := spans.find(*_node_key(event))) is None:
            return
        at = event.created_at + event.elapsed_s
        spans.last = max(spans.last, at)
        if event.visit:
            for child in spans.take_all(event.visit):
                self._end(child, at, error_type="cancelled")
        if event.usage is not None and event.visit not in spans.agents:
            params: Any = run.plan.nodes[event.node].params
            span.set_attributes({"gen_ai.operation.name": "chat", **_usage(event.usage)})
            if llm_id := getattr(params, "llm_id", ""):
                span.set_attributes(_model(llm_id))
        spans.agents.discard(event.visit)
        spans.take(*_node_key(event))
        kind = "" if event.error is None else "cancelled" if event.error == CANCELLED_TEXT else "component"
        self._end(span, at, error_type=kind, error=event.error or "")

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        """Start or end the span of an iteration, a model call, a tool call or a nested agent."""
        spans = self._runs.get(run.run_id)
        if spans is None or record.is_replayed:
            return
        spans.last = max(spans.last, record.created_at)
        agent = self._agent(spans, run, record)
        match record.kind:
            case "iteration_started":
                self._begin_iteration(spans, agent, record)
            case "iteration_finished" | "iteration_failed":
                self._end_chat(spans, record)
            case "tool_started":
                self._begin_tool(spans, agent, record)
            case "tool_finished" | "tool_failed":
                self._end_tool(spans, record)
            case "note":
                self._note(agent, record)
            case "thought":
                span = spans.find("chat", *_agent_key(record)) or spans.find("iteration", *_agent_key(record)) or agent
                if self._include_content:
                    at = _ns(record.created_at)
                    span.add_event("thought", {"ragflow_lg.thought": to_text(record.details["text"])}, at)
            case "agent_finished":
                self._end_agent(spans, agent, record)

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        """End the span of a run and all spans that are still open in it."""
        if (spans := self._runs.pop(run.run_id, None)) is None:
            return
        at = max(spans.last, run.started_at + summary.elapsed_s)
        for child in spans.take_all():
            self._end(child, at, error_type="cancelled")
        spans.run.set_attributes(
            {
                "ragflow_lg.run.status": summary.status,
                "ragflow_lg.run.input_tokens": summary.usage.prompt_tokens,
                "ragflow_lg.run.output_tokens": summary.usage.completion_tokens,
                "ragflow_lg.run.model_calls": summary.usage.calls,
                "ragflow_lg.run.cost": summary.usage.cost,
            }
        )
        kind = {"failed": "run", "cancelled": "cancelled"}.get(summary.status, "")
        self._end(spans.run, at, error_type=kind, error=summary.error or "")

    # Agents

    def _agent(self, spans: _OpenSpans, run: RunInfo, record: AgentRecord) -> Span:
        """Return the agent's span: its node's span, or its own span below the tool call if it is used as a tool."""
        spans.agents.add(record.visit)
        if record.caller:
            return self._nested_agent(spans, record)
        span = spans.find("node", record.node, str(record.visit)) or spans.run
        if span is not spans.run and spans.find("agent", *_agent_key(record)) is None:
            title = run.plan.nodes[NodeId(record.node)].title or record.node
            span.update_name(f"invoke_agent {title}")
            span.set_attributes(
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": title, "gen_ai.agent.id": record.path}
            )
        return span

    def _nested_agent(self, spans: _OpenSpans, record: AgentRecord) -> Span:
        span = spans.find("agent", *_agent_key(record))
        if span is None:
            outer, _, step = record.caller.rpartition("/")
            visit = str(record.visit)
            parent = spans.find("tool", visit, outer, step) or spans.find("node", record.node, visit) or spans.run
            name = record.path.rpartition("-->")[2]
            attributes: Attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": name,
                "gen_ai.agent.id": record.path,
            }
            span = self._child(parent, f"invoke_agent {name}", attributes, record.created_at)
            spans.add(("agent", *_agent_key(record)), span)
        return span

    def _begin_iteration(self, spans: _OpenSpans, agent: Span, record: AgentRecord) -> None:
        self._end_iteration(spans, record)
        details: Mapping[str, Any] = record.details
        number = details["iteration"]
        attributes: Attributes = {"ragflow_lg.iteration": number, **_model(details["model"])}
        iteration = self._child(agent, f"iteration {number}", attributes, record.created_at)
        spans.add(("iteration", *_agent_key(record)), iteration)
        chat: Attributes = {"gen_ai.operation.name": "chat", **_model(details["model"])}
        name = f"chat {chat['gen_ai.request.model']}"
        spans.add(("chat", *_agent_key(record)), self._child(iteration, name, chat, record.created_at, is_call=True))

    def _end_chat(self, spans: _OpenSpans, record: AgentRecord) -> None:
        chat = spans.take("chat", *_agent_key(record))
        if chat is None:
            return
        details: Mapping[str, Any] = record.details
        if record.kind == "iteration_failed":
            error = details["error"]
            self._end(chat, record.created_at, error_type="model", error=error)
            if (iteration := spans.take("iteration", *_agent_key(record))) is not None:
                self._end(iteration, record.created_at, error_type="model", error=error)
            return
        usage = details["usage"]
        chat.set_attributes(_usage(Usage(usage["prompt_tokens"], usage["completion_tokens"], 1, usage["cost"])))
        self._end(chat, record.created_at)

    def _begin_tool(self, spans: _OpenSpans, agent: Span, record: AgentRecord) -> None:
        details: Mapping[str, Any] = record.details
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": details["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": details["call_id"],
            "ragflow_lg.tool.title": details["title"],
        }
        if self._include_content:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(details["arguments"], ensure_ascii=False)
        parent = spans.find("iteration", *_agent_key(record)) or agent
        span = self._child(parent, f"execute_tool {details['tool']}", attributes, record.created_at)
        spans.add(("tool", *_agent_key(record), details["step"]), span)

    def _end_tool(self, spans: _OpenSpans, record: AgentRecord) -> None:
        span = spans.take("tool", *_agent_key(record), to_text(record.details["step"]))
        if span is None:
            return
        if record.kind == "tool_failed":
            self._end(span, record.created_at, error_type="tool", error=to_text(record.details["error"]))
            return
        if self._include_content:
            span.set_attribute("gen_ai.tool.call.result", to_text(record.details["result"]))
        self._end(span, record.created_at)

    def _note(self, agent: Span, record: AgentRecord) -> None:
        details: Mapping[str, Any] = record.details
        data = details["usage"]
        usage = Usage(data["prompt_tokens"], data["completion_tokens"], data["calls"], data["cost"])
        start = record.created_at - details["seconds"]
        attributes = {"gen_ai.operation.name": "chat", **_usage(usage)} if usage.calls else {}
        span = self._child(agent, details["title"], attributes, start)
        if self._include_content:
            span.set_attribute("ragflow_lg.result", to_text(details["result"]))
        self._end(span, record.created_at)

    def _end_agent(self, spans: _OpenSpans, agent: Span, record: AgentRecord) -> None:
        self._end_iteration(spans, record)
        if record.metrics is not None:
            agent.set_attributes(_metrics(record.metrics))
        if record.caller and (span := spans.take("agent", *_agent_key(record))) is not None:
            self._end(span, record.created_at)

    def _end_iteration(self, spans: _OpenSpans, record: AgentRecord) -> None:
        for kind in ("chat", "iteration"):  # a cancelled model call has no end record
            if (span := spans.take(kind, *_agent_key(record))) is not None:
                self._end(span, record.created_at, error_type="cancelled" if kind == "chat" else "")

    # Spans

    def _child(self, parent: Span, name: str, attributes: Attributes, at: float, *, is_call: bool = False) -> Span:
        kind = self._api.SpanKind.CLIENT if is_call else self._api.SpanKind.INTERNAL
        context = self._api.set_span_in_context(parent)
        return self._tracer.start_span(name, context, kind, attributes, start_time=_ns(at))

    def _end(self, span: Span, at: float, *, error_type: str = "", error: str = "") -> None:
        if error_type:
            span.set_attribute("error.type", error_type)
        if error_type not in ("", "cancelled"):
            description = error if self._include_content else None
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, description))
        span.end(_ns(at))


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _node_key(event: NodeStarted | NodeFinished) -> _Key:
    return ("node", event.node, str(event.visit))


def _agent_key(record: AgentRecord) -> _Key:
    """Identify an agent in the run by its visit and the tool call that it serves."""
    return (str(record.visit), record.caller)


def _model(llm_id: str) -> Attributes:
    name = parse_llm_id(llm_id)
    return {
        "gen_ai.request.model": name.model or llm_id,
        **({"gen_ai.provider.name": name.provider.lower()} if name.provider else {}),
    }


def _usage(usage: Usage) -> Attributes:
    attributes: Attributes = {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
    }
    return {**attributes, "ragflow_lg.cost": usage.cost} if usage.cost else attributes


def _metrics(metrics: AgentMetrics) -> Attributes:
    data = cast("Mapping[str, Any]", metrics.data())
    names = ("iterations", "failed_iterations", "calls", "failures", "model_seconds", "tool_seconds", "replayed")
    return {f"ragflow_lg.agent.{name}": data[name] for name in names}
