"""The command ``ragflow-lg``."""

from __future__ import annotations

import os
import sys

# Pydantic would look through every installed distribution for plugins, which nothing here needs.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from ragflow_lg.base.errors import CompileError, RagflowLgError, SessionBusyError
from ragflow_lg.base.extras import extra_of
from ragflow_lg.server.cli.terminal import printable, write_as_utf8

__all__ = ["main"]

USAGE_ERROR = 2


def main() -> None:
    """Run the command. What a user can mend is one message and exit code 2; a closed pipe ends quietly."""
    write_as_utf8()
    try:
        _play(sys.argv[1:])
    except CompileError as error:
        sys.stderr.write(printable(f"{error}\n"))
        sys.exit(USAGE_ERROR)
    except RagflowLgError as error:
        holder = f" It is run by {error.holder}." if isinstance(error, SessionBusyError) and error.holder else ""
        sys.stderr.write(printable(f"ragflow-lg: {error}{holder}\n"))
        sys.exit(USAGE_ERROR)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if not extra:
            raise
        command = f"ragflow-lg {sys.argv[1]}" if len(sys.argv) > 1 else "ragflow-lg"
        sys.stderr.write(f"{command} needs {error.name}. Install it with: pip install 'ragflow-lg[{extra}]'\n")
        sys.exit(USAGE_ERROR)
    except BrokenPipeError:
        # The reader is gone; keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _play(arguments: list[str]) -> None:
    if arguments[:1] == ["check"]:
        from ragflow_lg.server.cli.diagnostics_output import check_as_asked

        if (code := check_as_asked(arguments[1:])) is not None:
            sys.exit(code)
    from ragflow_lg.server.cli.command_line import command_line

    command_line(arguments)()
