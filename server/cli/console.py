"""Showing a turn to a person: nodes as they run, the answer as it comes."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.runs.runner import Run
from ragflow_lg.server.cli.agent_lines import brief, call_text, metrics_line
from ragflow_lg.server.cli.terminal import printable
from ragflow_lg.wire.wire_events import Message, MessageEnd, WireEvent, WireNodeFinished, WireNodeStarted

__all__ = ["show", "show_forms"]


async def show(plan: Plan, turn: Run, *, has_trace: bool = False) -> None:
    """Play a turn: the answer on standard output; progress, and what a model thinks, on standard error.

    Calls of tools are part of the progress; with ``has_trace`` rounds and thoughts of agents too.
    """
    view = _View(plan)
    async for event in turn.with_records():
        if isinstance(event, AgentRecord):
            view.record(event, has_trace=has_trace)
        else:
            view.take(event)
    view.close()
    if turn.status == "succeeded" and not turn.answer.strip():
        view.say("[yellow]The turn ended without an answer[/]: no Message had a text to show.")
    if turn.agents.visits:
        view.say(f"[dim]{escape(metrics_line(turn.agents))}[/]")
    if turn.status == "failed":
        who = plan.nodes[turn.failed_node].title or turn.failed_node if turn.failed_node in plan.nodes else ""  # pyright: ignore[reportArgumentType]
        why = "" if turn.failed_node in view.failed else f": {escape(turn.error or '')}"
        view.say(f"[bold red]failed[/]{' in ' + escape(who) if who else ''}{why}")
    elif turn.status == "cancelled":
        view.say("[yellow]stopped[/]")


def show_forms(pauses: Iterable[Pause]) -> None:
    """Show every form that waits for an answer: who asks, the tips, the fields."""
    screen = Console(stderr=True, highlight=False, emoji=False)
    for pause in pauses:
        tips = f" {pause.tips}" if pause.tips else ""
        screen.print(f"[bold]?{escape(printable(tips))}[/] [dim]({escape(printable(pause.node))})[/]", soft_wrap=True)
        for field in form_fields(pause.inputs):
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            optional = ", optional" if field.is_optional else ""
            told = printable(f"  {field.name}: {field.label}, {field.type}{optional}{choices}")
            screen.print(escape(told), soft_wrap=True)


class _View:
    """What is on the screen."""

    def __init__(self, plan: Plan) -> None:
        self._rounds = _Rounds(plan)
        self._progress = Console(stderr=True, highlight=False, emoji=False)
        self._answer = Console(file=sys.stdout, highlight=False, emoji=False)
        self._is_thinking = False
        self._unfinished: Console | None = None
        """Where a line is still being written."""
        self.failed: set[str] = set()
        """Ids of the nodes whose errors have been shown."""

    def say(self, text: str) -> None:
        """Write a line of progress, below whatever is being written."""
        self._end_line()
        self._progress.print(printable(text), soft_wrap=True)

    def take(self, event: WireEvent) -> None:
        """Show an event."""
        match event:
            case WireNodeStarted():
                name = event.component_name or event.component_id
                round_ = self._rounds.of(event.component_id)
                where = f" round {round_}" if round_ is not None else ""
                self.say(f"[dim]▸ {escape(name)} ({escape(event.component_type)}){where}[/]")
            case WireNodeFinished():
                name = escape(event.component_name or event.component_id)
                if event.error:
                    self.failed.add(event.component_id)
                    self.say(f"[red]✗ {name}: {escape(event.error)}[/]")
                else:
                    self.say(f"[dim]✓ {name} ({event.elapsed_time:.2f} s)[/]")
            case Message():
                self._is_thinking = (self._is_thinking or event.start_to_think) and not event.end_to_think
                if event.content and self._is_thinking:
                    self._write(self._progress, event.content, "dim italic")
                elif event.content:
                    self._write(self._answer, event.content, None)
            case MessageEnd():
                self._end_line()
            case _:
                pass  # what is asked for is shown at the end, form by form

    def record(self, record: AgentRecord, *, has_trace: bool) -> None:
        """Show what an agent does; those that are tools stand further in."""
        details = record.details
        margin = "  " * (record.path.count("-->") + 1)
        match record.kind:
            case "tool_started" if not record.is_replayed:
                self.say(f"[dim]{margin}→ {escape(call_text(_tool_name(record), details['arguments']))}[/]")
            case "tool_finished":
                took = "from before" if record.is_replayed else f"{details['seconds']:.2f} s"
                said = escape(brief(details["result"]))
                self.say(f"[dim]{margin}✓ {escape(_tool_name(record))} ({took}): {said}[/]")
            case "tool_failed":
                self.say(f"[red]{margin}✗ {escape(_tool_name(record))}: {escape(brief(details['error']))}[/]")
            case "note":
                self.say(f"[dim]{margin}· {escape(brief(details['title']))}: {escape(brief(details['result']))}[/]")
            case "iteration_started" if has_trace:
                model = escape(brief(details["model"]))
                self.say(f"[dim]{margin}· round {details['iteration']} ({model})[/]")
            case "thought" if has_trace:
                self.say(f"[dim italic]{margin}“{escape(brief(details['text']))}”[/]")
            case _:
                pass  # told by what comes next

    def close(self) -> None:
        """Finish the last line."""
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
    """Give the name for people, where there is such a tool."""
    return brief(record.details["title"] or record.details["tool"])


class _Rounds:
    """Which round of a Loop or Iteration a node begins in, from 0 as for ``rerun --round``.

    Events do not tell; it is counted where the region has been seen to begin, and its rounds do not mix.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._count: dict[str, int] = {}

    def of(self, id_: str) -> int | None:
        """Take note of a node that begins; give its round. The item node also begins once to find that all is done."""
        node = self._plan.nodes.get(NodeId(id_))
        if node is None:
            return None
        if node.spec.region is not None and node.spec.region.max_concurrency(node.params) == 1:
            self._count[id_] = -1
        around = node.parent or ""
        if node.spec.kind == "region_item" and around in self._count:
            self._count[around] += 1
            return None
        number = self._count.get(around, -1)
        return number if number >= 0 else None
