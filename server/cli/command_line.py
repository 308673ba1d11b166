"""The command line with its subcommands, of which only the one that is called is imported."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

_MAX_CHARS = 1000


class CommandGroup(TyperGroup):
    """A command with subcommands. Typer validates values with Pydantic, whose prefix is removed from messages."""

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
        rows = [(name.ljust(width), command.get_short_help_str(_MAX_CHARS)) for name, command in listed]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def make_group(summary: str) -> typer.Typer:
    """Return a command that shows its help unless a subcommand is named."""
    return typer.Typer(
        help=summary, no_args_is_help=True, rich_markup_mode=None, add_completion=False, cls=CommandGroup
    )


class _Command(NamedTuple):
    """A subcommand: its heading in the help, its module in this folder, and the first sentence of its own help."""

    heading: str
    module: str
    summary: str


_RUN, _BUILD, _SERVE = "Run", "Build", "Serve"
_DATA, _SET_UP = "Models and data", "Set up"

COMMANDS = {
    "run": _Command(_RUN, "run", "Run one turn of a canvas and stream its answer."),
    "chat": _Command(_RUN, "chat", "Talk with a canvas, or with datasets, in the terminal."),
    "resume": _Command(_RUN, "run", "Answer the form that a session is waiting for."),
    "continue": _Command(_RUN, "run", "Finish a turn that crashed or was stopped or cancelled."),
    "sessions": _Command(_RUN, "sessions", "List, look into, go back in, stop, move and delete sessions."),
    "init": _Command(_BUILD, "init", "Set up a folder with an example canvas and settings."),
    "check": _Command(_BUILD, "check", "Report all problems in canvases, with their line and column."),
    "needs": _Command(_BUILD, "needs", "List what a canvas needs from the settings, and what is missing."),
    "canvas": _Command(_BUILD, "canvas", "Draw, compare, format, convert and eject canvases."),
    "components": _Command(_BUILD, "components", "List all components, or describe one with its parameters."),
    "prompts": _Command(_BUILD, "components", "List the engine's prompts, or print the text of one."),
    "lsp": _Command(_BUILD, "developer", "Show mistakes in canvases while you type, in your editor."),
    "studio": _Command(_BUILD, "studio", "Open canvases in LangGraph Studio."),
    "mock-llm": _Command(_BUILD, "developer", "Serve a mock model with an OpenAI-compatible API."),
    "serve": _Command(_SERVE, "serve", "Serve agents over HTTP: RAGFlow's API, OpenAI's and our own."),
    "worker": _Command(_SERVE, "serve", "Play the runs of `ragflow-lg serve`, beside the servers."),
    "keys": _Command(_SERVE, "keys", "Create, list and revoke API keys."),
    "schedules": _Command(_SERVE, "schedules", "Add, list and delete times at which the server starts turns."),
    "sandbox": _Command(_SERVE, "sandbox", "Run programs of CodeExec as a service."),
    "pull": _Command(_SERVE, "pull", "Fetch agents, sessions and datasets from a running RAGFlow."),
    "models": _Command(_DATA, "models", "List and test models and providers."),
    "kb": _Command(_DATA, "kb", "Manage datasets of the embedded knowledge base."),
    "memory": _Command(_DATA, "memory", "Show, search, export and delete what canvases remember of users."),
    "doctor": _Command(_SET_UP, "doctor", "Check the store, models, MCP servers and what is installed."),
    "settings": _Command(_SET_UP, "settings_list", "List all settings with their defaults."),
    "trust": _Command(_SET_UP, "init", "Use the settings in a folder whenever it is the working folder."),
}
"""The subcommands. The function or command group in the module has the name of the command."""

MOVED = {
    **{name: f"canvas {name}" for name in ("convert", "diff", "draw", "eject", "fmt", "schema", "upgrade")},
    **{name: f"sessions {name}" for name in ("cancel", "fork", "history", "rerun", "trace")},
    "completion": "--install-completion",
}
"""The present name of each command that had another one."""

_RUN_WITHOUT_ARGUMENTS = (
    "sessions", "components", "prompts", "doctor", "lsp", "settings", "trust", "serve", "worker"
)  # fmt: skip


class _Commands(CommandGroup):
    """The subcommands. Importing all and inspecting their signatures would take longer than checking a canvas."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a subcommand, or return None if there is none with this name."""
        if cmd_name in MOVED and not ctx.resilient_parsing:
            ctx.fail(f"`ragflow-lg {cmd_name}` is now `ragflow-lg {MOVED[cmd_name]}`.")
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands under their headings, without importing them."""
        width = max(map(len, COMMANDS))
        for heading in dict.fromkeys(listed.heading for listed in COMMANDS.values()):
            with formatter.section(heading):
                listed = [(name, each.summary) for name, each in COMMANDS.items() if each.heading == heading]
                formatter.write_dl([(name.ljust(width), summary) for name, summary in listed])


def _load(name: str) -> Any:
    module = import_module(f"ragflow_lg.server.cli.{COMMANDS[name].module}")
    attribute = name.replace("-", "_")
    command = getattr(module, f"{attribute}_" if iskeyword(attribute) else attribute)
    group = command
    if not isinstance(command, typer.Typer):
        group = typer.Typer(rich_markup_mode=None, add_completion=False)
        group.command(name, no_args_is_help=name not in _RUN_WITHOUT_ARGUMENTS)(command)
    loaded = get_command(group)
    loaded.name = name
    return loaded


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from ragflow_lg import __version__

        typer.echo(__version__)
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Run RAGFlow canvases on LangGraph."""


app = typer.Typer(
    name="ragflow-lg",
    cls=_Commands,
    help="Run RAGFlow canvases on LangGraph.",
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Start with:  ragflow-lg init my_agents",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.callback()(options)
