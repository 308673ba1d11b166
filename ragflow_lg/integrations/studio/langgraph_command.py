"""LangGraph's command ``langgraph`` without its banner; it ends with the process that started it.

`ragflow-lg studio` may be killed, or its terminal closed, before it can stop the server that it started.
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

_BANNER = "langgraph_api.cli"
"""Logger for the banner. `ragflow-lg studio` prints the URLs itself."""
_GRACE_S = 10.0


def call_when_closed(pipe: int, end: Callable[[], None]) -> None:
    """Call ``end`` in a thread when the other side of a pipe is closed, even if its process was killed."""

    def wait() -> None:
        while os.read(pipe, 1):
            pass
        end()

    threading.Thread(target=wait, name="owner", daemon=True).start()


def _end_all() -> None:
    """End this process and its children."""
    os.killpg(os.getpgrp(), signal.SIGINT)
    time.sleep(_GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Run ``langgraph`` with this process's arguments. Standard input is a pipe from the parent process."""
    if os.getpgrp() == os.getpid():  # started as the leader of a separate process group
        call_when_closed(sys.stdin.fileno(), _end_all)
    logging.getLogger(_BANNER).setLevel(logging.WARNING)
    runpy.run_module("langgraph_cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
