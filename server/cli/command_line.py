"""The command line with its subcommands, of which only the one that is called is imported."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ragflow_lg.component.integration import Command, Integration, find_integrations

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


_RUN, _BUILD, _SERVE = "Run", "Build", "Serve"
_DATA, _SET_UP = "Models and data", "Set up"

_COMMANDS = {
    "run": Command(_RUN, ".run:run", "Run one turn of a canvas and stream its answer."),
    "chat": Command(_RUN, ".chat:chat", "Talk with a canvas, or with datasets, in the terminal."),
    "resume": Command(_RUN, ".run:resume", "Answer the form that a session is waiting for."),
    "continue": Command(_RUN, ".run:continue_", "Finish a turn that crashed or was stopped or cancelled."),
    "sessions": Command(
        _RUN, ".sessions:sessions", "List, look into, go back in, stop, move and delete sessions.", False
    ),
    "init": Command(_BUILD, ".init:init", "Set up a folder with an example canvas and settings."),
    "check": Command(_BUILD, ".check:check", "Report all problems in canvases, with their line and column."),
    "needs": Command(_BUILD, ".needs:needs", "List what a canvas needs from the settings, and what is missing."),
    "canvas": Command(_BUILD, ".canvas:canvas", "Draw, compare, format and upgrade canvases."),
    "components": Command(
        _BUILD, ".components:components", "List all components, or describe one with its parameters.", False
    ),
    "prompts": Command(_BUILD, ".components:prompts", "List the engine's prompts, or print the text of one.", False),
    "serve": Command(_SERVE, ".serve:serve", "Serve agents over HTTP: RAGFlow's API, OpenAI's and our own.", False),
    "worker": Command(_SERVE, ".serve:worker", "Play the runs of `ragflow-lg serve`, beside the servers.", False),
    "keys": Command(_SERVE, ".keys:keys", "Create, list and revoke API keys."),
    "schedules": Command(
        _SERVE, ".schedules:schedules", "Add, list and delete times at which the server starts turns."
    ),
    "models": Command(_DATA, ".models:models", "List and test models and providers."),
    "doctor": Command(_SET_UP, ".doctor:doctor", "Check the store, models, MCP servers and what is installed.", False),
    "settings": Command(_SET_UP, ".settings_list:settings", "List all settings with their defaults.", False),
    "trust": Command(_SET_UP, ".init:trust", "Use the settings in a folder whenever it is the working folder.", False),
}
_CORE = Integration("ragflow_lg.server.cli", commands=_COMMANDS)


def find_commands() -> dict[str, tuple[Command, Integration]]:
    """Return all subcommands by name, each with what it belongs to: those of the core, and then of the integrations."""
    owners = (_CORE, *find_integrations().integrations.values())
    return {name: (command, owner) for owner in owners for name, command in owner.commands.items()}


class _Commands(CommandGroup):
    """The subcommands. Importing all and inspecting their signatures would take longer than checking a canvas."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in find_commands() if " " not in name]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a subcommand, or return None if there is none with this name."""
        if cmd_name not in self.commands:
            command = _CORE.commands.get(cmd_name)  # looking for integrations takes time
            found = (command, _CORE) if command else find_commands().get(cmd_name)
            if found is None:
                return None
            self.commands[cmd_name] = _load(cmd_name, *found)
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands under their headings, without importing them."""
        commands = {name: command for name, (command, _) in find_commands().items() if " " not in name}
        width = max(map(len, commands))
        for heading in dict.fromkeys(listed.heading for listed in commands.values()):
            with formatter.section(heading):
                listed = [(name, each.summary) for name, each in commands.items() if each.heading == heading]
                formatter.write_dl([(name.ljust(width), summary) for name, summary in listed])


def _load(name: str, listed: Command, owner: Integration) -> Any:
    command = owner.load(listed.place)
    group = command
    if not isinstance(command, typer.Typer):
        group = typer.Typer(rich_markup_mode=None, add_completion=False)
        group.command(name, no_args_is_help=listed.needs_arguments)(command)
    loaded: Any = get_command(group)
    loaded.name = name
    if group is command:
        for path, found in find_commands().items():
            if path.startswith(f"{name} "):
                loaded.add_command(_load(path.removeprefix(f"{name} "), *found))
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
