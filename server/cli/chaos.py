"""``ragflow-lg chaos``: kill a canvas at every place, and see whether it goes on as if nothing had been."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from server.cli.options import Checkpoint
from server.cli.terminal import printable

__all__ = ["chaos"]


def chaos(
    files: Annotated[list[Path], typer.Argument(help="Canvas files.", metavar="FILE…")],
    checkpoint: Checkpoint = "",
    query: Annotated[str, typer.Option("--query", help="What the user says.")] = "hello",
) -> None:
    """Kill runs of a canvas with SIGKILL in every node and behind everything that is stored; let each go on.

    The demo model answers, forms are filled with samples. Without --checkpoint each run has an SQLite file of its own.
    Exit code 0: every run ended like one in peace, no finished node ran again. 1: not so. 2: it cannot be played.

    Example: ragflow-lg chaos examples/*.json
    """
    from server.canvases import read_canvas
    from server.chaos import disturb_all

    total = differences = 0
    for path in files:
        try:
            kills, problems = disturb_all(read_canvas(path), checkpoint, query)
        except RuntimeError as error:
            sys.stderr.write(printable(f"ragflow-lg: {path}: {error}\n"))
            raise typer.Exit(2) from None
        for problem in problems:
            sys.stdout.write(printable(f"      {problem}\n"))
        sys.stdout.write(printable(f"{'FAIL' if problems else 'ok  '}  {path}  {kills} kills\n"))
        total, differences = total + kills, differences + len(problems)
    sys.stdout.write(f"{total} kills, {differences} differences\n")
    raise typer.Exit(1 if differences else 0)
