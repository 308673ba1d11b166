"""The command ``ragflow-lg``: one file a subcommand."""

from __future__ import annotations

import os
import sys
from typing import Annotated

# Pydantic would look through every installed distribution for plugins, which nothing here needs.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from ragflow_lg.errors import CompileError, RagflowLgError
from server.cli import (
    cancel,
    chaos,
    check,
    components,
    doctor,
    draw,
    fork,
    go_on,
    history,
    rerun,
    resume,
    run,
    schema,
    sessions,
    trace,
)
from server.cli.terminal import printable, write_as_utf8

__all__ = ["app", "main"]

USAGE_ERROR = 2

app = typer.Typer(
    name="ragflow-lg",
    help="Run RAGFlow canvases on LangGraph.",
    epilog="Begin with:  ragflow-lg run examples/customer_service_router.json 'Where is my parcel?' --model demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = {
    "run": run.run,
    "resume": resume.resume,
    "continue": go_on.go_on,
    "cancel": cancel.cancel,
    "sessions": sessions.sessions,
    "history": history.history,
    "trace": trace.trace,
    "rerun": rerun.rerun,
    "fork": fork.fork,
    "check": check.check,
    "draw": draw.draw,
    "schema": schema.schema,
    "components": components.components,
    "doctor": doctor.doctor,
    "chaos": chaos.chaos,
}


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(version("ragflow-lg"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Run RAGFlow canvases on LangGraph."""


_NEEDS_NOTHING = ("sessions", "schema", "components", "doctor")
for name, command in COMMANDS.items():
    app.command(name, no_args_is_help=name not in _NEEDS_NOTHING)(command)


def main() -> None:
    """Run the command. What a user can mend is one message and exit code 2; a closed pipe ends quietly."""
    write_as_utf8()
    try:
        app()
    except CompileError as error:
        sys.stderr.write(printable(f"{error}\n"))
        sys.exit(USAGE_ERROR)
    except RagflowLgError as error:
        sys.stderr.write(printable(f"ragflow-lg: {error}\n"))
        sys.exit(USAGE_ERROR)
    except BrokenPipeError:
        # The reader is gone; keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
