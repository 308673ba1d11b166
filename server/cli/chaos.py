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
    import tempfile

    from server.chaos import disturb
    from server.library import read_canvas

    bad = points = 0
    for path in files:
        document = read_canvas(path)
        with tempfile.TemporaryDirectory() as folder:
            count = iter(range(1_000_000))

            def fresh(folder: str = folder, count: object = count) -> str:
                return checkpoint or f"sqlite:///{folder}/{next(count)}.db"  # type: ignore[call-overload]

            found = 0
            try:
                for result in disturb(document, fresh, Path(folder), query):
                    if isinstance(result, int):
                        points += result
                        continue
                    for problem in result.problems:
                        found += 1
                        sys.stdout.write(printable(f"{path}: killed {result.point}: {problem}\n"))
            except RuntimeError as error:
                sys.stderr.write(printable(f"ragflow-lg: {path}: {error}\n"))
                raise typer.Exit(2) from None
        bad += found
        sys.stdout.write(printable(f"{'FAIL' if found else 'ok'}  {path}\n"))
    sys.stdout.write(f"{points} kills, {bad} differences\n")
    raise typer.Exit(1 if bad else 0)
