"""Entry point of the command ``ragflow-lg``."""

from __future__ import annotations

import os
import sys

# Pydantic would search every installed distribution for plugins, which are not used here.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from ragflow_lg.base.errors import CompileError, RagflowLgError, SessionBusyError
from ragflow_lg.server.cli.command_line import app
from ragflow_lg.server.cli.init import ask_for_trust
from ragflow_lg.server.cli.terminal import print_note, use_utf8
from ragflow_lg.server.settings.trusted_folders import asking

USAGE_ERROR = 2


def main() -> None:
    """Run the command. User errors print one message and exit with code 2; a closed pipe is ignored."""
    use_utf8()
    try:
        with asking(ask_for_trust):
            app(prog_name="ragflow-lg")
    except CompileError as error:
        print_note(str(error))
        sys.exit(USAGE_ERROR)
    except RagflowLgError as error:
        holder = f" It is running in {error.holder}." if isinstance(error, SessionBusyError) and error.holder else ""
        print_note(f"ragflow-lg: {error}{holder}")
        sys.exit(USAGE_ERROR)
    except ModuleNotFoundError as error:
        _report_missing(error)
        sys.exit(USAGE_ERROR)
    except BrokenPipeError:
        # Standard output is no longer read; without this, the interpreter complains when flushing it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _report_missing(error: ModuleNotFoundError) -> None:
    """Print which extra provides the module that is not installed; raise the error again if none does."""
    from ragflow_lg.base.extras import extra_of, install_command

    extra = extra_of(error.name)
    if not extra:
        raise error
    command = f"ragflow-lg {sys.argv[1]}" if len(sys.argv) > 1 else "ragflow-lg"
    print_note(f"{command} needs {error.name}. Install it with: {install_command(extra)}")
