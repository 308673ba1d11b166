"""``ragflow-lg chaos``: kill runs of a canvas at every point and check that each of them recovers."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.base.portability import require_posix
from ragflow_lg.server.cli.options import Checkpoint
from ragflow_lg.server.cli.terminal import print_line, print_note, printable


def chaos(
    files: Annotated[list[Path], typer.Argument(help="Canvas files.", metavar="FILE…")],
    checkpoint: Checkpoint = "",
    query: Annotated[str, typer.Option("--query", help="The user's message.")] = "hello",
) -> None:
    """Kill runs at every point; check that they recover.

    Runs are killed with SIGKILL in every node and after every write to the store, then continued. The demo model is
    used, forms are filled with sample values, and no e-mail is sent. Without --checkpoint, each run uses its own SQLite
    file. A kill takes about a second; progress is shown on standard error.

    A run that asks whether an interrupted effect is to be repeated is answered with yes, and another one with no.

    Exit code 0: every run ended like an undisturbed run, and no finished node ran again. 1: at least one run did not.
    2: the canvas cannot be run.

    Example: ragflow-lg chaos examples/*.json
    """
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
    from ragflow_lg.server.devtools.chaos.chaos_runs import disturb_all
    from ragflow_lg.server.settings import load_settings

    require_posix("ragflow-lg chaos")
    total = differences = 0
    for path in files:
        try:
            progress = _Progress(path)
            deployment = CanvasFiles(load_settings, path, asks_servers=False)
            kills, problems = disturb_all(
                read_canvas(path),
                checkpoint,
                query,
                progress.show,
                deployment=deployment,
                durability=load_settings().checkpoint_durability,
            )
        except RuntimeError as error:
            print_note(f"ragflow-lg: {path}: {error}")
            raise typer.Exit(2) from None
        for problem in problems:
            sys.stdout.write(printable(f"      {problem}\n"))
        verdict = "FAIL" if problems else "ok  "
        print_line(f"{verdict}  {path}  {kills} kills  {progress.elapsed_s:.0f} s")
        total, differences = total + kills, differences + len(problems)
    print_line(f"{total} kills, {differences} differences")
    raise typer.Exit(1 if differences else 0)


class _Progress:
    """Progress on standard error: one line that is updated on a terminal, otherwise one line for every 10 %."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = time.monotonic()
        self._last_tenth = -1

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def show(self, done: int, kills: int) -> None:
        """Show the number of kills done and, after the first one, an estimate of the time left."""
        tenth = done * 10 // max(kills, 1)
        if not sys.stderr.isatty() and tenth == self._last_tenth:
            return
        self._last_tenth = tenth
        left = f", about {self.elapsed_s / done * (kills - done):.0f} s left" if 0 < done < kills else ""
        line = printable(f"{self._path}: {done} of {kills} kills{left}")
        is_over = done == kills
        sys.stderr.write(f"\r\x1b[K{line}" + "\n" * is_over if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()
