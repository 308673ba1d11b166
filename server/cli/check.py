"""``ragflow-lg check``: report every problem in a canvas without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.diagnostics_output import ReportFormat, check_files
from ragflow_lg.server.cli.options import SettingsFile


def check(
    files: Annotated[list[Path], typer.Argument(help="Canvas files, or folders of canvas files.", metavar="FILE|DIR…")],
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="text for reading; json or sarif for other programs.")
    ] = "text",
    tenant: Annotated[
        str,
        typer.Option("--tenant", help="Check with what this tenant of a server may use, and the limits on canvases."),
    ] = "",
    ready: Annotated[
        bool, typer.Option("--ready", help="Also fail if the settings lack something that a canvas needs.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="First remove what has no effect from the files, and leave the rest as it is.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """Report all problems in canvases, with their line and column.

    Warnings name the models, datasets and keys that the settings lack. With --ready they are errors.

    Exit code 0: all canvases can run. 1: at least one has errors. 2: a file cannot be read.

    Examples:
    ragflow-lg check canvases

    ragflow-lg check my_canvas.json --output sarif > findings.sarif

    ragflow-lg check my_canvas.json --tenant shop

    ragflow-lg check my_canvas.json --ready

    ragflow-lg check my_canvas.json --fix
    """
    raise typer.Exit(check_files(files, output, settings, tenant, is_ready=ready, is_fixing=fix))
