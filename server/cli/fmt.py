"""``ragflow-lg fmt``: canvas files in one form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def fmt(
    files: Annotated[
        list[Path], typer.Argument(help="Canvas files, or - to read standard input and write standard output.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
) -> None:
    """Write canvas files in one form, without the state of runs.

    Keys are sorted and indented by two spaces; the history, the path and other values of a run that RAGFlow stores in
    the file are reset, and so is what the editor stores while someone works. Components keep their order.

    Examples:
    ragflow-lg fmt my_canvas.json

    ragflow-lg fmt --check canvases/*.json
    """
    from ragflow_lg.dsl_compiler.canvas_format import format_canvas
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.cli.output_file import replace_file

    changed = False
    for file in files:
        if str(file) == "-":
            sys.stdout.write(format_canvas(sys.stdin.buffer.read()))
            continue
        content = read_canvas(file)
        text = format_canvas(content).encode()
        if text == content:
            continue
        changed = True
        sys.stderr.write(f"{'Would rewrite' if check else 'Rewrote'} {file}.\n")
        if not check:
            replace_file(file, text)
    raise typer.Exit(1 if check and changed else 0)
