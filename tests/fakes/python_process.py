"""A Python program in another process that exchanges lines with the test."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.harness.loaded_python import python_command

_END_S = 10.0
_ROOT = Path(__file__).parents[2]


class PythonProcess:
    """The process, and its standard input and output."""

    def __init__(self, process: subprocess.Popen[str], stdin: IO[str], stdout: IO[str]) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self.pid = int(self.read_line())

    def write_line(self, line: str) -> None:
        self._stdin.write(f"{line}\n")
        self._stdin.flush()

    def read_line(self) -> str:
        """Wait for the next line; return it without its end."""
        return self._stdout.readline().rstrip("\n")

    def kill(self) -> None:
        self._process.kill()
        self._stdout.read()  # to its end: the program ends
        self._process.wait()
        until = time.monotonic() + _END_S
        while _is_running(self.pid) and time.monotonic() < until:  # its files are closed before it is gone
            time.sleep(0.001)


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def python_process(program: str, *arguments: str, is_new: bool = False) -> Generator[PythonProcess]:
    """Run the source of a program in the root of the repository. It is killed at the end of the block.

    A new process is a child of this one and has loaded nothing. Any other one starts faster.
    """
    source = f"import os\nprint(os.getpid(), flush=True)\n{program}"
    command = [sys.executable, "-c", source, *arguments] if is_new else python_command("-c", source, *arguments)
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield PythonProcess(process, process.stdin, process.stdout)
        finally:
            process.kill()
