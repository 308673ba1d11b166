"""Pretty terminal output for a turn: nodes as they run and the answer as it is generated."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.markup import escape

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.engine.demo import NOTICE
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.runs.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    WireEvent,
    WireNodeFinished,
    WireNodeStarted,
    message_frames,
)
from ragflow_lg.server.cli.terminal import count_of, one_line, printable
from ragflow_lg.services.agent_metrics import AgentMetrics

if TYPE_CHECKING:
    from ragflow_lg.runs.runner import Run


async def show(plan: Plan, turn: Run, *, has_trace: bool = False, reported: str = "") -> None:
    """Run a turn: print the answer on standard output, progress and a model's thoughts on standard error.

    Progress includes tool calls and, with ``has_trace``, the rounds and thoughts of agents. Errors that are in what has
    been ``reported`` before are not repeated.
    """
    view = _View(plan, reported)
    async for event in turn.with_records():
        if isinstance(event, AgentRecord):
            view.show_record(event, has_trace=has_trace)
        else:
            view.show_event(event)
    view.close()
    if turn.status == "succeeded" and not turn.answer.strip():
        view.print_progress("[yellow]The turn ended without an answer[/]: no Message component had text to show.")
    if turn.agents.visits:
        view.print_progress(f"[dim]{escape(metrics_line(turn.agents))}[/]")
    if turn.status == "failed":
        node = plan.nodes.get(NodeId(turn.failed_node or ""))
        name = (node.title or turn.failed_node or "") if node is not None else ""
        reason = "" if turn.failed_node in view.failed_nodes else f": {escape(turn.error or '')}"
        view.print_progress(f"[bold red]failed[/]{' in ' + escape(name) if name else ''}{reason}")
    elif turn.status == "cancelled":
        view.print_progress("[yellow]stopped[/]")


def show_forms(pauses: Iterable[Pause]) -> None:
    """Print every form that is waiting for an answer: its tips, its component and its fields."""
    screen = Console(stderr=True, highlight=False, emoji=False)
    for pause in pauses:
        tips = f" {pause.tips}" if pause.tips else ""
        screen.print(f"[bold]?{escape(printable(tips))}[/] [dim]({escape(printable(pause.node))})[/]", soft_wrap=True)
        for field in form_fields(pause.inputs):
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            optional = ", optional" if field.is_optional else ""
            line = printable(f"  {field.name}: {field.label}, {field.type}{optional}{choices}")
            screen.print(escape(line), soft_wrap=True)


def shorten_error(error: str, reported: str) -> str:
    """Return an error, or a reference to what has been ``reported`` before if that contains it."""
    return "what it needs is missing; see above." if error in reported else error


class _View:
    """Prints the output of one turn."""

    def __init__(self, plan: Plan, reported: str) -> None:
        self._rounds = _RoundCounter(plan)
        self._reported = reported
        self._progress = Console(stderr=True, highlight=False, emoji=False)
        self._answer = Console(file=sys.stdout, highlight=False, emoji=False)
        self._is_thinking = False
        self._unfinished: Console | None = None
        """The console whose last line is unfinished."""
        self.failed_nodes: set[str] = set()
        """Ids of the nodes whose errors have been printed."""

    def print_progress(self, text: str) -> None:
        """Print a line of progress, after ending an unfinished line."""
        self._end_line()
        self._progress.print(printable(text), soft_wrap=True)

    def show_event(self, event: WireEvent) -> None:
        match event:
            case WireNodeStarted():
                name = event.component_name or event.component_id
                number = self._rounds.start(event.component_id)
                suffix = f" round {number}" if number is not None else ""
                self.print_progress(f"[dim]▸ {escape(name)} ({escape(event.component_type)}){suffix}[/]")
            case WireNodeFinished():
                name = escape(event.component_name or event.component_id)
                if event.error:
                    self.failed_nodes.add(event.component_id)
                    self.print_progress(f"[red]✗ {name}: {escape(shorten_error(event.error, self._reported))}[/]")
                else:
                    self.print_progress(f"[dim]✓ {name} ({event.elapsed_time:.2f} s)[/]")
                for notice in event.notices:
                    if notice == NOTICE:  # `terminal.DEMO` says it once
                        continue
                    self.print_progress(f"[yellow]! {name}: {escape(notice)}[/]")
            case Message():
                self._is_thinking = (self._is_thinking or event.start_to_think) and not event.end_to_think
                if event.content and self._is_thinking:
                    self._write(self._progress, event.content, "dim italic")
                elif event.content:
                    self._write(self._answer, event.content, None)
            case MessageReset():
                self._is_thinking = False
                self.print_progress("[yellow]↺ The answer starts again.[/]")
                for frame in message_frames(event.content):
                    self.show_event(frame)
            case MessageEnd():
                self._end_line()
            case _:
                pass  # forms are printed at the end

    def show_record(self, record: AgentRecord, *, has_trace: bool) -> None:
        """Print an agent's action, indented by the agent's depth, because an agent can be another agent's tool."""
        details = record.details
        margin = "  " * (record.path.count("-->") + 1)
        match record.kind:
            case "tool_started" if not record.is_replayed:
                self.print_progress(f"[dim]{margin}→ {escape(call_text(_tool_name(record), details['arguments']))}[/]")
            case "tool_finished":
                time = "stored result" if record.is_replayed else f"{details['seconds']:.2f} s"
                result = escape(one_line(details["result"]))
                self.print_progress(f"[dim]{margin}✓ {escape(_tool_name(record))} ({time}): {result}[/]")
                for file in cast("list[Mapping[str, JsonValue]]", details.get("files", [])) if has_trace else ():
                    self.print_progress(f"[dim]{margin}  file: {escape(one_line(file['url'] or file['name']))}[/]")
            case "tool_failed":
                error = escape(one_line(details["error"]))
                self.print_progress(f"[red]{margin}✗ {escape(_tool_name(record))}: {error}[/]")
            case "note":
                title, result = escape(one_line(details["title"])), escape(one_line(details["result"]))
                self.print_progress(f"[dim]{margin}· {title}: {result}[/]")
            case "iteration_started" if has_trace:
                model = escape(one_line(details["model"]))
                self.print_progress(f"[dim]{margin}· round {details['iteration']} ({model})[/]")
            case "thought" if has_trace:
                self.print_progress(f"[dim italic]{margin}“{escape(one_line(details['text']))}”[/]")
            case _:
                pass  # shown by the next record

    def close(self) -> None:
        self._end_line()

    def _write(self, screen: Console, text: str, style: str | None) -> None:
        if self._unfinished is not screen:
            self._end_line()
        screen.print(printable(text), end="", style=style, markup=False, soft_wrap=True)
        self._unfinished = None if text.endswith("\n") else screen

    def _end_line(self) -> None:
        if self._unfinished is not None:
            self._unfinished.print()
            self._unfinished = None


def _tool_name(record: AgentRecord) -> str:
    """Return the tool's title, or the name that the model used."""
    return one_line(record.details["title"] or record.details["tool"])


class _RoundCounter:
    """Counts the rounds of Loops and Iterations, from 0 as for ``rerun --round``.

    Events carry no round numbers. Rounds are counted from the start of a region, and only in regions whose rounds run
    sequentially.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rounds: dict[str, int] = {}

    def start(self, id_: str) -> int | None:
        """Record the start of a node and return its round, or None.

        A region's item node has no round, because it starts one extra time to find that no rounds are left.
        """
        node = self._plan.nodes.get(NodeId(id_))
        if node is None:
            return None
        if node.spec.region is not None and node.spec.region.max_concurrency(node.params) == 1:
            self._rounds[id_] = -1
        region = node.parent or ""
        if node.spec.kind == "region_item" and region in self._rounds:
            self._rounds[region] += 1
            return None
        number = self._rounds.get(region, -1)
        return number if number >= 0 else None


def call_text(tool: str, arguments: JsonValue) -> str:
    """Return a tool call in the notation of a function call.

    >>> call_text("wikipedia_search_0", {"query": "Laos", "n": 2})
    'wikipedia_search_0(query="Laos", n=2)'
    """
    if isinstance(arguments, Mapping):
        pairs = cast("Mapping[str, Any]", arguments).items()
        text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
    else:
        text = to_text(arguments)
    return f"{one_line(tool)}({one_line(text)})"


def metrics_line(metrics: AgentMetrics) -> str:
    """Return the totals for all agents in a run: rounds, calls, time, tokens and cost."""
    parts = [count_of(metrics.visits, "agent"), count_of(metrics.iterations, "round")]
    calls = count_of(metrics.calls, "call")
    if metrics.failures:
        failures = (
            f"{one_line(name, 40)} {t.failures} of {t.calls}" for name, t in metrics.tools.items() if t.failures
        )
        calls += f" ({metrics.failures} failed: {', '.join(failures)})"
    parts.append(calls)
    parts.append(f"{metrics.total_s:.2f} s (model {metrics.model_s:.2f} s, tools {metrics.tool_s:.2f} s)")
    usage = metrics.usage
    if usage.prompt_tokens or usage.completion_tokens:
        parts.append(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    if usage.cost:
        parts.append(f"cost {usage.cost:.6g}")
    if metrics.replayed:
        parts.append(f"{count_of(metrics.replayed, 'step')} not repeated")
    return ", ".join(parts)
