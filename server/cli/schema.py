"""``ragflow-lg schema``: the JSON Schema of a canvas, for editors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.terminal import print_note


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", help="Exit with 1 if this file is not the schema of this version."),
    ] = None,
) -> None:
    """Print the JSON Schema of canvases (DSL v1).

    It contains this version's components.

    Example: ragflow-lg schema -o canvas.schema.json
    """
    from ragflow_lg.dsl_compiler.schema import canvas_schema

    text = json.dumps(canvas_schema(catalog()), ensure_ascii=False, indent=2) + "\n"
    if check is not None:
        if not check.is_file() or check.read_text(encoding="utf-8") != text:
            print_note(f"{check} is not the schema of this version; update it with: ragflow-lg schema -o {check}")
            raise typer.Exit(1)
    elif output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
