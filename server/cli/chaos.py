"""``ragflow-lg chaos``: kill a canvas at every place, and see whether it goes on as if nothing had been."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.options import Checkpoint
from ragflow_lg.server.cli.terminal import printable

__all__ = ["chaos"]


def chaos(
    files: Annotated[list[Path], typer.Argument(help="Canvas files.", metavar="FILE…")],
    checkpoint: Checkpoint = "",
    query: Annotated[str, typer.Option("--query", help="What the user says.")] = "hello",
) -> None:
    """Kill runs of a canvas with SIGKILL in every node and behind everything that is stored; let each go on.

    The demo model answers, forms are filled with samples. Without --checkpoint each run has an SQLite file of its own.
    A kill takes about a second; how many there are, and how long they take, is shown on standard error.
    Exit code 0: every run ended like one in peace, no finished node ran again. 1: not so. 2: it cannot be played.

    Example: ragflow-lg chaos examples/*.json
    """
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.devtools.chaos.chaos_runs import disturb_all

    total = differences = 0
    for path in files:
        try:
            progress = _Progress(path)
            kills, problems = disturb_all(read_canvas(path), checkpoint, query, progress.tell)
        except RuntimeError as error:
            sys.stderr.write(printable(f"ragflow-lg: {path}: {error}\n"))
            raise typer.Exit(2) from None
        for problem in problems:
            sys.stdout.write(printable(f"      {problem}\n"))
        verdict = "FAIL" if problems else "ok  "
        sys.stdout.write(printable(f"{verdict}  {path}  {kills} kills  {progress.seconds:.0f} s\n"))
        total, differences = total + kills, differences + len(problems)
    sys.stdout.write(f"{total} kills, {differences} differences\n")
    raise typer.Exit(1 if differences else 0)


class _Progress:
    """A line on standard error that says how far it is: written over on a terminal, one for every tenth elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._told = -1

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def tell(self, done: int, kills: int) -> None:
        """Say it, and from the first kill on how long the others will take."""
        if not sys.stderr.isatty() and done * 10 // max(kills, 1) == self._told:
            return
        self._told = done * 10 // max(kills, 1)
        left = f", about {self.seconds / done * (kills - done):.0f} s left" if 0 < done < kills else ""
        line = printable(f"{self._path}: {done} of {kills} kills{left}")
        is_over = done == kills
        sys.stderr.write(f"\r\x1b[K{line}" + "\n" * is_over if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()
