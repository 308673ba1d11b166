"""Showing a turn to a person: nodes as they run, the answer as it comes."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from ragflow_lg.forms import form_fields
from ragflow_lg.pauses import Pause
from ragflow_lg.plan import Plan
from ragflow_lg.runner import Run
from ragflow_lg.wire import Message, MessageEnd, NodeFinished, NodeStarted, WireEvent
from server.cli.terminal import printable

__all__ = ["show", "show_forms"]


async def show(plan: Plan, turn: Run) -> None:
    """Play a turn: progress on standard error, the answer on standard output."""
    view = _View()
    async for event in turn:
        view.take(event)
    view.close()
    if turn.status == "failed":
        who = plan.nodes[turn.failed_node].title or turn.failed_node if turn.failed_node in plan.nodes else ""  # pyright: ignore[reportArgumentType]
        view.say(f"[bold red]failed[/]{' in ' + escape(who) if who else ''}: {escape(turn.error or '')}")
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

    def __init__(self) -> None:
        self._progress = Console(stderr=True, highlight=False, emoji=False)
        self._answer = Console(file=sys.stdout, highlight=False, emoji=False)
        self._is_thinking = False
        self._is_line_open = False

    def say(self, text: str) -> None:
        """Write a line of progress, below whatever is being written."""
        self._end_line()
        self._progress.print(printable(text), soft_wrap=True)

    def take(self, event: WireEvent) -> None:
        """Show an event."""
        match event:
            case NodeStarted():
                self.say(
                    f"[dim]▸ {escape(event.component_name or event.component_id)} ({escape(event.component_type)})[/]"
                )
            case NodeFinished():
                name = escape(event.component_name or event.component_id)
                if event.error:
                    self.say(f"[red]✗ {name}: {escape(event.error)}[/]")
                else:
                    self.say(f"[dim]✓ {name} ({event.elapsed_time:.2f} s)[/]")
            case Message():
                if event.end_to_think:
                    self._end_line()
                self._is_thinking = (self._is_thinking or event.start_to_think) and not event.end_to_think
                if event.content:
                    style = "dim italic" if self._is_thinking else None
                    self._answer.print(printable(event.content), end="", style=style, markup=False, soft_wrap=True)
                    self._is_line_open = not event.content.endswith("\n")
            case MessageEnd():
                self._end_line()
            case _:
                pass  # what is asked for is shown at the end, form by form

    def close(self) -> None:
        """Finish the last line."""
        self._end_line()

    def _end_line(self) -> None:
        if self._is_line_open:
            self._answer.print()
            self._is_line_open = False
