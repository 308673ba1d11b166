"""Groups of commands, whose help lists them under headings and cuts no line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A command with subcommands. Typer validates values with Pydantic, whose prefix is removed from messages."""

    headings: ClassVar[Mapping[str, str]] = {}
    """The heading of each subcommand; without one, it stands under "Commands"."""

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands with the whole first sentence of their help, which Typer would cut."""
        listed = [(name, command) for name, command in self.commands.items() if not command.hidden]
        width = max((len(name) for name, _ in listed), default=0)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in listed:
            summary = command.get_short_help_str(_MAX_CHARS)
            sections.setdefault(self.headings.get(name, "Commands"), []).append((name.ljust(width), summary))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


_MAX_CHARS = 1000


def make_group(summary: str) -> typer.Typer:
    """Return a command that shows its help unless a subcommand is named."""
    return typer.Typer(help=summary, no_args_is_help=True, rich_markup_mode=None, cls=CommandGroup)
