"""Tasks for worker processes: harmless ones, and ones that exceed each limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ragflow_lg.base.errors import AnswerError, ComponentError
from ragflow_lg.base.worker_tasks import worker_task


@worker_task("Repeating")
def repeat(text: str, times: int = 1) -> str:
    """Return a text several times. Short texts are repeated in the event loop."""
    return text * times


@worker_task("Counting", small_size=0)
def process_id() -> int:
    """Return the id of the process that runs the task."""
    return os.getpid()


@worker_task("Counting")
def process_id_of(_: str) -> int:
    """Return the id of the process that runs the task; short texts do not leave the event loop."""
    return os.getpid()


@worker_task("Sleeping", seconds=0.3, small_size=0)
def sleep(seconds: float) -> None:
    """Wait without using the processor."""
    time.sleep(seconds)


@worker_task("Sleeping", seconds=30, small_size=0)
def sleep_long(seconds: float) -> int:
    """Wait, with a limit of 30 s, and return the id of the process."""
    time.sleep(seconds)
    return os.getpid()


@worker_task("Waiting", seconds=30, small_size=0)
def wait_for_program(report: str, *, dies: bool) -> None:
    """Write the process id of a program that sleeps into a file, and wait for it, or die."""
    with subprocess.Popen(["sleep", "30"]) as program:
        Path(report).write_text(str(program.pid))
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


@worker_task("Searching", seconds=1, small_size=0)
def search() -> int:
    """Hold the interpreter's lock in a single call for minutes."""
    return ("a" * 1_500_000).rfind("ab" + "a" * 700_000)


@worker_task("Filling", small_size=0)
def fill(size: int) -> int:
    """Allocate a block of memory."""
    return len(bytearray(size))


@worker_task("Aborting", small_size=0)
def abort() -> None:
    """End the process as a library does that gets no more memory."""
    os.abort()


@worker_task("Crashing", small_size=0)
def crash() -> None:
    """End the process as a bug in a C library would."""
    os.kill(os.getpid(), signal.SIGSEGV)


@worker_task("Failing", small_size=0)
def fail(kind: str) -> None:
    """Raise an error."""
    if kind == "component":
        raise ComponentError("It is wrong.")
    if kind == "answer":
        raise AnswerError({"size": "It is not a size."})
    raise ZeroDivisionError(kind)


@worker_task("Printing", small_size=0)
def print_text(text: str) -> str:
    """Print to both streams, and return the environment's secrets."""
    print(text)
    print(text, file=sys.stderr)
    return " ".join(name for name in os.environ if "KEY" in name or "SECRET" in name)
