"""The command ``ragflow-lg``: one file a subcommand."""

from __future__ import annotations

import os
import sys

# Pydantic would look through every installed distribution for plugins, which nothing here needs.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from ragflow_lg.errors import CompileError, RagflowLgError
from server.cli import check, components, draw, run, schema
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
for command in (run.run, check.check, draw.draw, schema.schema, components.components):
    app.command(no_args_is_help=command in (run.run, check.check, draw.draw))(command)


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
