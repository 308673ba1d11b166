"""``ragflow-lg convert``: a canvas in the other version of the DSL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from ragflow_lg.server.cli.options import Output
from ragflow_lg.server.cli.output_file import write_output


def convert(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    to: Annotated[Literal["v1", "v2"], typer.Option("--to", help="Version of the DSL to write.")],
    output: Output = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="For v2: leave out what v2 does not have (variables, the nodes inside a Loop, the drawing).",
        ),
    ] = False,
) -> None:
    """Convert a canvas to DSL v2, or back to DSL v1.

    What DSL v2 does not have is kept in its key "v1", so that the way back gives the same canvas. With --plain the file
    is as RAGFlow's Go port writes it. All commands read both versions.

    Example: ragflow-lg convert my_canvas.json --to v2 -o my_canvas.v2.json
    """
    from ragflow_lg.dsl_compiler import convert_source
    from ragflow_lg.server.assembly.canvas_files import read_canvas

    if plain and to == "v1":
        raise typer.BadParameter("--plain goes with --to v2.")
    document = convert_source(read_canvas(file), to, is_plain=plain)
    write_output(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), output)
