"""The command line with its subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "run": "run",
    "resume": "resume",
    "continue": "resume",
    "cancel": "sessions",
    "sessions": "sessions",
    "history": "sessions",
    "trace": "trace",
    "rerun": "fork",
    "fork": "fork",
    "check": "check",
    "draw": "draw",
    "schema": "components",
    "components": "components",
    "prompts": "prompts",
    "doctor": "doctor",
    "trust": "trust",
    "chaos": "chaos",
    "serve": "serve",
    "studio": "studio",
    "keys": "keys",
    "mock-llm": "mock_llm",
    "kb": "kb",
}
"""The module for each command, in this folder. The function or command group has the name of the command."""

_RUN_WITHOUT_ARGUMENTS = ("sessions", "schema", "components", "prompts", "doctor", "trust", "serve")


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from ragflow_lg import __version__

        typer.echo(__version__)
        raise typer.Exit


class _Commands(TyperGroup):
    """The subcommands. Typer validates values with Pydantic, whose prefix is removed from messages."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def options(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Run RAGFlow canvases on LangGraph."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """Return the command with only the subcommand named in the arguments, or with all subcommands.

    Importing all subcommands and inspecting their signatures would take longer than checking a canvas.
    """
    app = typer.Typer(
        name="ragflow-lg",
        cls=_Commands,
        help="Run RAGFlow canvases on LangGraph.",
        context_settings={"help_option_names": ["--help", "-h"]},
        epilog="Start with:  ragflow-lg run examples/customer_service_router.json 'Where is my parcel?' --model demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(options)
    first = arguments[0] if arguments else ""
    for name in (first,) if first in COMMANDS else COMMANDS:
        module = import_module(f"ragflow_lg.server.cli.{COMMANDS[name]}")
        attribute = name.replace("-", "_")
        command = getattr(module, f"{attribute}_" if iskeyword(attribute) else attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, no_args_is_help=name not in _RUN_WITHOUT_ARGUMENTS)(command)
    return app
