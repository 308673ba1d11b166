"""Spans of OpenTelemetry: a run, its nodes, the rounds of its agents, their model and tools.

Names of attributes are those of the semantic conventions for generative AI where there are any, ``ragflow_lg.…``
elsewhere. Spans get the times at which things happened, however late this callback is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from ragflow_lg.adapters.chat.chat_models import parse_llm_id
from ragflow_lg.base.errors import CANCELLED_TEXT, SettingsError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.events import AgentRecord, NodeFinished, NodeStarted
from ragflow_lg.runs.callbacks import RunCallbacks, RunInfo, RunSummary
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

__all__ = ["OtelSpans"]

Attributes: TypeAlias = dict[str, str | int | float | bool]
_Key: TypeAlias = tuple[str, ...]


class _Open(Struct):
    """The spans of one run that have not ended."""

    run: Span
    last: float
    """The latest time that was seen, in epoch seconds."""
    spans: dict[_Key, list[Span]] = field(default_factory=dict[_Key, list[Any]])
    """By what they are of; several where rounds of one region run side by side."""
    agents: set[int] = field(default_factory=set[int])
    """Visits in which an agent is at work."""

    def add(self, key: _Key, span: Span) -> None:
        self.spans.setdefault(key, []).append(span)

    def find(self, *key: str) -> Span | None:
        held = self.spans.get(key)
        return held[0] if held else None

    def take(self, *key: str) -> Span | None:
        held = self.spans.get(key)
        span = held.pop(0) if held else None
        if held is not None and not held:
            del self.spans[key]
        return span

    def take_all(self, visit: int | None = None) -> Iterator[Span]:
        """Give all spans, or those within a visit, the innermost first."""
        for key in reversed(list(self.spans)):
            if visit is None or (key[0] != "node" and key[1] == str(visit)):
                yield from reversed(self.spans.pop(key))


class OtelSpans(RunCallbacks):
    """Makes spans of runs. The span that is current where a run is iterated over becomes its parent."""

    def __init__(self, provider: TracerProvider | None = None, *, include_content: bool = False) -> None:
        """Without a ``provider`` the global one is used.

        ``include_content`` puts texts into the spans: arguments, results, thoughts and errors.

        Raises:
            SettingsError: if OpenTelemetry is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError:
            raise SettingsError("Spans need an extra: pip install 'ragflow-lg[otel]'.") from None
        self._api = trace
        self._tracer: Tracer = trace.get_tracer("ragflow_lg", tracer_provider=provider)
        self._include_content = include_content
        self._runs: dict[str, _Open] = {}

    @property
    def tracer(self) -> Tracer:
        """What makes the spans."""
        return self._tracer

    # What happens

    async def on_run_started(self, run: RunInfo) -> None:
        """Begin the span of a run."""
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
        self._runs[run.run_id] = _Open(span, run.started_at)

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        """Begin the span of a node."""
        if (held := self._runs.get(run.run_id)) is None:
            return
        held.last = max(held.last, event.created_at)
        node = run.plan.nodes[event.node]
        attributes: Attributes = {"ragflow_lg.node.id": node.id, "ragflow_lg.node.component": node.spec.name}
        if node.title:
            attributes["ragflow_lg.node.title"] = node.title
        if node.parent is not None:
            attributes["ragflow_lg.node.region"] = node.parent
        name = f"{node.spec.name} {node.title or node.id}"
        held.add(_node_key(event), self._child(held.run, name, attributes, event.created_at))

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        """End the span of a node, and what its agent has left open."""
        if (held := self._runs.get(run.run_id)) is None or (span := held.find(*_node_key(event))) is None:
            return
        at = event.created_at + event.elapsed_s
        held.last = max(held.last, at)
        if event.visit:
            for left in held.take_all(event.visit):
                self._end(left, at, error_type="cancelled")
        if event.usage is not None and event.visit not in held.agents:
            params: Any = run.plan.nodes[event.node].params
            span.set_attributes({"gen_ai.operation.name": "chat", **_usage(event.usage)})
            if llm_id := getattr(params, "llm_id", ""):
                span.set_attributes(_model(llm_id))
        held.agents.discard(event.visit)
        held.take(*_node_key(event))
        kind = "" if event.error is None else "cancelled" if event.error == CANCELLED_TEXT else "component"
        self._end(span, at, error_type=kind, error=event.error or "")

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        """Begin or end the span of a round, a call or an agent that is a tool."""
        held = self._runs.get(run.run_id)
        if held is None or record.is_replayed:
            return
        held.last = max(held.last, record.created_at)
        agent = self._agent(held, run, record)
        match record.kind:
            case "iteration_started":
                self._begin_iteration(held, agent, record)
            case "iteration_finished" | "iteration_failed":
                self._end_chat(held, record)
            case "tool_started":
                self._begin_tool(held, agent, record)
            case "tool_finished" | "tool_failed":
                self._end_tool(held, record)
            case "note":
                self._note(agent, record)
            case "thought":
                span = held.find("chat", *_place(record)) or held.find("iteration", *_place(record)) or agent
                if self._include_content:
                    moment = _ns(record.created_at)
                    span.add_event("thought", {"ragflow_lg.thought": record.details["text"]}, moment)
            case "agent_finished":
                self._end_agent(held, agent, record)

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        """End the span of a run, and whatever was stopped with it."""
        if (held := self._runs.pop(run.run_id, None)) is None:
            return
        at = max(held.last, run.started_at + summary.elapsed_s)
        for left in held.take_all():
            self._end(left, at, error_type="cancelled")
        held.run.set_attributes(
            {
                "ragflow_lg.run.status": summary.status,
                "ragflow_lg.run.input_tokens": summary.usage.prompt_tokens,
                "ragflow_lg.run.output_tokens": summary.usage.completion_tokens,
                "ragflow_lg.run.model_calls": summary.usage.calls,
                "ragflow_lg.run.cost": summary.usage.cost,
            }
        )
        kind = {"failed": "run", "cancelled": "cancelled"}.get(summary.status, "")
        self._end(held.run, at, error_type=kind, error=summary.error or "")

    # Agents

    def _agent(self, held: _Open, run: RunInfo, record: AgentRecord) -> Span:
        """Give the span of the agent: that of its node, or one of its own below the call of it as a tool."""
        held.agents.add(record.visit)
        if record.caller:
            return self._nested_agent(held, record)
        span = held.find("node", record.node, str(record.visit)) or held.run
        if span is not held.run and held.find("agent", *_place(record)) is None:
            title = run.plan.nodes[NodeId(record.node)].title or record.node
            span.update_name(f"invoke_agent {title}")
            span.set_attributes(
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": title, "gen_ai.agent.id": record.path}
            )
        return span

    def _nested_agent(self, held: _Open, record: AgentRecord) -> Span:
        span = held.find("agent", *_place(record))
        if span is None:
            around, _, step = record.caller.rpartition("/")
            visit = str(record.visit)
            parent = held.find("tool", visit, around, step) or held.find("node", record.node, visit) or held.run
            name = record.path.rpartition("-->")[2]
            attributes: Attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": name,
                "gen_ai.agent.id": record.path,
            }
            span = self._child(parent, f"invoke_agent {name}", attributes, record.created_at)
            held.add(("agent", *_place(record)), span)
        return span

    def _begin_iteration(self, held: _Open, agent: Span, record: AgentRecord) -> None:
        self._end_iteration(held, record)
        number = record.details["iteration"]
        about: Attributes = {"ragflow_lg.iteration": number, **_model(record.details["model"])}
        iteration = self._child(agent, f"iteration {number}", about, record.created_at)
        held.add(("iteration", *_place(record)), iteration)
        chat: Attributes = {"gen_ai.operation.name": "chat", **_model(record.details["model"])}
        name = f"chat {chat['gen_ai.request.model']}"
        held.add(("chat", *_place(record)), self._child(iteration, name, chat, record.created_at, is_call=True))

    def _end_chat(self, held: _Open, record: AgentRecord) -> None:
        chat = held.take("chat", *_place(record))
        if chat is None:
            return
        if record.kind == "iteration_failed":
            error = record.details["error"]
            self._end(chat, record.created_at, error_type="model", error=error)
            if (iteration := held.take("iteration", *_place(record))) is not None:
                self._end(iteration, record.created_at, error_type="model", error=error)
            return
        used: Mapping[str, Any] = record.details["usage"]
        chat.set_attributes(_usage(Usage(used["prompt_tokens"], used["completion_tokens"], 1, used["cost"])))
        self._end(chat, record.created_at)

    def _begin_tool(self, held: _Open, agent: Span, record: AgentRecord) -> None:
        details = record.details
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": details["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": details["call_id"],
            "ragflow_lg.tool.title": details["title"],
        }
        if self._include_content:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(details["arguments"], ensure_ascii=False)
        parent = held.find("iteration", *_place(record)) or agent
        span = self._child(parent, f"execute_tool {details['tool']}", attributes, record.created_at)
        held.add(("tool", *_place(record), details["step"]), span)

    def _end_tool(self, held: _Open, record: AgentRecord) -> None:
        span = held.take("tool", *_place(record), record.details["step"])
        if span is None:
            return
        if record.kind == "tool_failed":
            self._end(span, record.created_at, error_type="tool", error=to_text(record.details["error"]))
            return
        if self._include_content:
            span.set_attribute("gen_ai.tool.call.result", to_text(record.details["result"]))
        self._end(span, record.created_at)

    def _note(self, agent: Span, record: AgentRecord) -> None:
        used: Mapping[str, Any] = record.details["usage"]
        usage = Usage(used["prompt_tokens"], used["completion_tokens"], used["calls"], used["cost"])
        began = record.created_at - record.details["seconds"]
        attributes = {"gen_ai.operation.name": "chat", **_usage(usage)} if usage.calls else {}
        span = self._child(agent, record.details["title"], attributes, began)
        if self._include_content:
            span.set_attribute("ragflow_lg.result", to_text(record.details["result"]))
        self._end(span, record.created_at)

    def _end_agent(self, held: _Open, agent: Span, record: AgentRecord) -> None:
        self._end_iteration(held, record)
        if record.metrics is not None:
            agent.set_attributes(_metrics(record.metrics))
        if record.caller and (span := held.take("agent", *_place(record))) is not None:
            self._end(span, record.created_at)

    def _end_iteration(self, held: _Open, record: AgentRecord) -> None:
        for kind in ("chat", "iteration"):  # a model that was stopped has told no end
            if (span := held.take(kind, *_place(record))) is not None:
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


def _place(record: AgentRecord) -> _Key:
    """Which agent it is: the visit, and the call that it works for."""
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
    data: Mapping[str, JsonValue] = metrics.data()
    names = ("iterations", "failed_iterations", "calls", "failures", "model_seconds", "tool_seconds", "replayed")
    return {f"ragflow_lg.agent.{name}": data[name] for name in names}
