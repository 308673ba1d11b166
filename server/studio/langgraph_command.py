"""LangGraph's command ``langgraph``, without its banner, and gone when the process that has begun it is.

`ragflow-lg studio` may be killed, or its terminal closed, before it can end the server that it has begun.
"""

from __future__ import annotations

import logging
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable

__all__ = ["main", "when_closed"]

_BANNER = "langgraph_api.cli"
"""The logger that shows it; whoever runs `ragflow-lg studio` has been told the addresses."""
_GRACE_S = 10.0


def when_closed(pipe: int, end: Callable[[], None]) -> None:
    """Call ``end``, in a thread, as soon as the other side of a pipe is closed, however its process has ended."""

    def wait() -> None:
        while os.read(pipe, 1):
            pass
        end()

    threading.Thread(target=wait, name="owner", daemon=True).start()


def _end_all() -> None:
    """End this process and what it has started."""
    os.killpg(os.getpgrp(), signal.SIGINT)
    time.sleep(_GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Run the command line that this process was given. Standard input is a pipe, which whoever began it holds."""
    if os.getpgrp() == os.getpid():  # a group of its own, in which nobody else is
        when_closed(sys.stdin.fileno(), _end_all)
    logging.getLogger(_BANNER).setLevel(logging.WARNING)
    runpy.run_module("langgraph_cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
