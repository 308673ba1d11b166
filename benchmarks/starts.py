"""Measure what it costs to start commands and a server: ``python -m benchmarks.starts [ROUNDS]``.

Processor time in seconds, of user and system. By hand is a process that only imports the libraries that the command
needs. Each round starts all processes one after the other, because the speed of a machine varies; the medians count.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

ROUNDS = 7
ROOT = Path(__file__).parent.parent
EXAMPLE = str(ROOT / "examples" / "travel_guide.json")
_COMMANDS: Sequence[tuple[Sequence[str], str]] = (
    (("--version",), "pass"),
    (("--help",), "import typer"),
    (("run", "--help"), "import pydantic, typer"),
    (("check", EXAMPLE), "import pydantic_settings"),
    (("sessions",), "import langgraph.checkpoint.sqlite, pydantic_settings, typer"),
    (("run", EXAMPLE, "hi", "--model", "demo"), "import langgraph.graph, pydantic_settings, typer"),
)
"""The arguments of commands, and the program by hand."""
_SERVER = "import fastapi, langgraph.checkpoint.sqlite, pydantic_settings, sqlalchemy.ext.asyncio, typer, uvicorn"
# The interpreter's own settings for tests would keep it from storing compiled files, or measure something else.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
_ENVIRONMENT["PYTHONPATH"] = str(ROOT)


class _Row(Struct):
    """One line of the table, with what is measured in each round."""

    name: str
    ours: Callable[[], float]
    by_hand: Callable[[], float]


def _cost(folder: Path, *words: str) -> float:
    """Run Python until it ends; return its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        check=True,
        cwd=folder,
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cost_of_server(folder: Path, waits: list[float]) -> float:
    """Start a server whose database exists, wait for its address, and return its processor time until then."""
    command = [sys.executable, "-m", "ragflow_lg", "serve", "--port", "0", "--model", "demo"]
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http")
        waits.append(time.perf_counter() - start)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        process.terminate()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rows(folder: Path, waits: list[float]) -> list[_Row]:
    rows = [
        _Row(
            " ".join(word.removeprefix(f"{ROOT}/") for word in words),
            lambda words=words: _cost(folder, "-m", "ragflow_lg", *words),
            lambda program=program: _cost(folder, "-c", program),
        )
        for words, program in _COMMANDS
    ]
    if Path("/proc").is_dir():
        rows.append(_Row("serve", lambda: _cost_of_server(folder, waits), lambda: _cost(folder, "-c", _SERVER)))
    return rows


def main(rounds: int) -> None:
    """Print the table."""
    waits: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        _cost(Path(name), "-m", "ragflow_lg", "run", EXAMPLE, "hi", "--model", "demo", "--session", "of_sessions")
        rows = _rows(Path(name), waits)
        measured: list[list[tuple[float, float]]] = []
        for number in range(rounds + 1):
            print(f"round {number + 1} of {rounds + 1}", file=sys.stderr, flush=True)
            measured.append([(row.ours(), row.by_hand()) for row in rows])
    print(f"{'start of':<50} {'CPU s':>7} {'by hand':>9} {'ratio':>7}")
    for index, row in enumerate(rows):
        pairs = [costs[index] for costs in measured[1:]]  # the first round compiled the files
        ours, by_hand = median(a for a, _ in pairs), median(b for _, b in pairs)
        print(f"{row.name:<50} {ours:>7.2f} {by_hand:>9.2f} {median(a / b for a, b in pairs):>7.2f}")
    if waits:
        print(f"{'serve: seconds until it prints its address':<50} {median(waits[1:]):>7.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description="What starts cost.")
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    main(parser.parse_args().rounds)
