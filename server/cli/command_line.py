"""The command line with its subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, ClassVar, NamedTuple

import typer

from ragflow_lg.server.cli.command_group import CommandGroup


class _Command(NamedTuple):
    """A subcommand: its heading in the help, its module in this folder, and the first sentence of its own help."""

    heading: str
    module: str
    summary: str


_RUN, _GO_BACK, _BUILD, _MOVE = "Run", "Look and go back", "Build", "Move"
_SERVE, _DATA, _SET_UP = "Serve", "Models and data", "Set up"

COMMANDS = {
    "run": _Command(_RUN, "run", "Run one turn of a canvas and stream its answer."),
    "chat": _Command(_RUN, "chat", "Talk with a canvas, or with datasets, in the terminal."),
    "resume": _Command(_RUN, "resume", "Answer the form that a session is waiting for."),
    "continue": _Command(_RUN, "resume", "Finish a turn that crashed or was stopped or cancelled."),
    "cancel": _Command(_RUN, "sessions", "Stop a session's running turn, even in another process."),
    "sessions": _Command(_GO_BACK, "sessions", "List, delete, export, import or encrypt sessions."),
    "history": _Command(_GO_BACK, "sessions", "List the checkpoints of a session, newest first."),
    "trace": _Command(_GO_BACK, "trace", "Show the tool calls of a session's agents."),
    "rerun": _Command(_GO_BACK, "fork", "Rerun the last turn from a node, in a new session."),
    "fork": _Command(_GO_BACK, "fork", "Copy a session, as it was at a checkpoint, to a new session."),
    "init": _Command(_BUILD, "init", "Set up a folder with an example canvas and settings."),
    "check": _Command(_BUILD, "check", "Report all problems in canvases, with their line and column."),
    "needs": _Command(_BUILD, "needs", "List what a canvas needs from the settings, and what is missing."),
    "draw": _Command(_BUILD, "draw", "Draw a canvas as text, SVG, PNG or Mermaid."),
    "diff": _Command(_BUILD, "diff", "Show what differs between two canvases, apart from their layout."),
    "fmt": _Command(_BUILD, "fmt", "Write canvas files in one form, without the state of runs."),
    "components": _Command(_BUILD, "components", "List all components, or describe one with its parameters."),
    "schema": _Command(_BUILD, "components", "Print the JSON Schema of canvases."),
    "prompts": _Command(_BUILD, "prompts", "List the engine's prompts, or print the text of one."),
    "lsp": _Command(_BUILD, "lsp", "Show mistakes in canvases while you type, in your editor."),
    "pull": _Command(_MOVE, "pull", "Fetch agents, sessions and datasets from a running RAGFlow."),
    "status": _Command(_MOVE, "status", "Show what differs between a pulled folder and its RAGFlow."),
    "push": _Command(_MOVE, "push", "Create or update agents on the RAGFlow of a pulled folder."),
    "upgrade": _Command(_MOVE, "upgrade", "Upgrade a canvas from before RAGFlow 0.20."),
    "convert": _Command(_MOVE, "convert", "Convert a canvas to DSL v2, or back to DSL v1."),
    "eject": _Command(_MOVE, "eject", "Write a canvas as a Python package for LangGraph."),
    "serve": _Command(_SERVE, "serve", "Serve agents over HTTP: RAGFlow's API, OpenAI's and our own."),
    "worker": _Command(_SERVE, "worker", "Play the runs of `ragflow-lg serve`, beside the servers."),
    "keys": _Command(_SERVE, "keys", "Create, list and revoke API keys."),
    "schedules": _Command(_SERVE, "schedules", "Add, list and delete times at which the server starts turns."),
    "studio": _Command(_SERVE, "studio", "Open canvases in LangGraph Studio."),
    "sandbox": _Command(_SERVE, "sandbox", "Run programs of CodeExec as a service."),
    "mock-llm": _Command(_SERVE, "mock_llm", "Serve a mock model with an OpenAI-compatible API."),
    "models": _Command(_DATA, "models", "List and test models and providers."),
    "kb": _Command(_DATA, "kb", "Manage datasets of the embedded knowledge base."),
    "memory": _Command(_DATA, "memory", "Show, search, export and delete what canvases remember of users."),
    "doctor": _Command(_SET_UP, "doctor", "Check the store, models, MCP servers and what is installed."),
    "trust": _Command(_SET_UP, "trust", "Use the settings in a folder whenever it is the working folder."),
    "completion": _Command(_SET_UP, "completion", "Print a script that completes commands in your shell."),
    "chaos": _Command(_SET_UP, "chaos", "Kill runs at every point; check that they recover."),
}
"""The subcommands. The function or command group in the module has the name of the command."""

_RUN_WITHOUT_ARGUMENTS = ("sessions", "schema", "components", "prompts", "doctor", "lsp", "trust", "serve", "worker")


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from ragflow_lg import __version__

        typer.echo(__version__)
        raise typer.Exit


class _Commands(CommandGroup):
    """The subcommands."""

    headings: ClassVar[Mapping[str, str]] = {name: listed.heading for name, listed in COMMANDS.items()}


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
        epilog="Start with:  ragflow-lg init my_agents",
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
