"""The command line with its subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup


class _Command(NamedTuple):
    """A subcommand: its module in this folder, and the first sentence of its help."""

    module: str
    summary: str


COMMANDS = {
    "run": _Command("run", "Run one turn of a canvas and stream its answer."),
    "chat": _Command("chat", "Talk with a canvas, or with datasets, in the terminal."),
    "resume": _Command("resume", "Answer the form that a session is waiting for."),
    "continue": _Command("resume", "Finish a turn that crashed or was stopped or cancelled."),
    "cancel": _Command("sessions", "Stop a session's running turn, even in another process."),
    "sessions": _Command("sessions", "List, delete or prune sessions."),
    "history": _Command("sessions", "List the checkpoints of a session, newest first."),
    "trace": _Command("trace", "Show the tool calls of a session's agents."),
    "rerun": _Command("fork", "Rerun the last turn from a node, in a new session."),
    "fork": _Command("fork", "Copy a session, as it was at a checkpoint, to a new session."),
    "check": _Command("check", "Report all problems in canvases, with their line and column."),
    "needs": _Command("needs", "List what a canvas needs from the settings, and what is missing."),
    "draw": _Command("draw", "Draw a canvas as text, SVG, PNG or Mermaid."),
    "diff": _Command("diff", "Show what differs between two canvases, apart from their layout."),
    "fmt": _Command("fmt", "Write canvas files in one form, without the state of stored runs."),
    "pull": _Command("pull", "Fetch agents, sessions and datasets from a running RAGFlow, and move them in here."),
    "status": _Command("status", "Show what differs between a pulled folder and its RAGFlow, and what to do about it."),
    "push": _Command("push", "Create or update agents on the RAGFlow that a folder was pulled from."),
    "upgrade": _Command("upgrade", "Upgrade a canvas from before RAGFlow 0.20."),
    "lsp": _Command("lsp", "Show mistakes in canvases while you type, in any editor that speaks LSP."),
    "convert": _Command("convert", "Convert a canvas to DSL v2, or back to DSL v1."),
    "eject": _Command("eject", "Write a canvas as a Python package for LangGraph."),
    "schema": _Command("components", "Print the JSON Schema of canvases."),
    "components": _Command("components", "List all components, or describe one with its parameters."),
    "prompts": _Command(
        "prompts", "List the engine's prompts, or print the text of one: the one in the settings, or else the default."
    ),
    "doctor": _Command("doctor", "Check the session store, models, MCP servers and what is installed."),
    "trust": _Command("trust", "Use the settings in a folder whenever it is the working folder."),
    "chaos": _Command("chaos", "Kill runs at every point; check that they recover."),
    "serve": _Command("serve", "Serve agents through RAGFlow's API, an OpenAI-compatible API and the native API."),
    "sandbox": _Command("sandbox", "Run programs of CodeExec as a service."),
    "studio": _Command("studio", "Open canvases in LangGraph Studio."),
    "keys": _Command("keys", "Create, list and revoke API keys."),
    "mock-llm": _Command("mock_llm", "Serve a mock model with an OpenAI-compatible API."),
    "models": _Command("models", "List and test models and providers."),
    "kb": _Command("kb", "Manage datasets of the embedded knowledge base."),
    "memory": _Command("memory", "Show, search, export and delete what canvases remember about users."),
}
"""The subcommands. The function or command group in the module has the name of the command."""

_RUN_WITHOUT_ARGUMENTS = ("sessions", "schema", "components", "prompts", "doctor", "lsp", "trust", "serve")


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
    """Return the command with the subcommand named in the arguments. The other subcommands are only listed.

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
    if first in COMMANDS:
        _add(app, first)
        return app
    for name, listed in COMMANDS.items():
        if name in arguments:  # it may follow an option
            _add(app, name)
        else:
            app.command(name, help=listed.summary)(_only_listed)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module = import_module(f"ragflow_lg.server.cli.{COMMANDS[name].module}")
    attribute = name.replace("-", "_")
    command = getattr(module, f"{attribute}_" if iskeyword(attribute) else attribute)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name, no_args_is_help=name not in _RUN_WITHOUT_ARGUMENTS)(command)


def _only_listed() -> None:
    """Stand for a subcommand that the arguments do not name."""
