"""``ragflow-lg schema``: the JSON Schema of a canvas, for editors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.assembly.library import catalog

__all__ = ["schema"]


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; without it the schema is printed.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option("--check", help="Say whether this file is the schema of this version.")
    ] = None,
) -> None:
    """Print the JSON Schema of DSL v1, made from the components of this version.

    Example: ragflow-lg schema -o canvas.schema.json
    """
    from ragflow_lg.dsl_compiler.schema import canvas_schema

    text = json.dumps(canvas_schema(catalog()), ensure_ascii=False, indent=2) + "\n"
    if check is not None:
        if not check.is_file() or check.read_text(encoding="utf-8") != text:
            sys.stderr.write(
                f"{check} is not the schema of this version; write it with: ragflow-lg schema -o {check}\n"
            )
            raise typer.Exit(1)
    elif output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
