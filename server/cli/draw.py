"""``ragflow-lg draw``: draw a canvas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.cli.options import Output
from ragflow_lg.server.cli.output_file import write_output
from ragflow_lg.server.cli.terminal import count_of, print_note

PictureFormat: TypeAlias = Literal["mermaid", "svg", "png", "ascii"]


def draw(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    format: Annotated[
        PictureFormat | None,
        typer.Option("--format", "-f", help="Format of the drawing. Default: by the name of the output file."),
    ] = None,
    output: Output = None,
    direction: Annotated[Literal["right", "down"], typer.Option("--direction", help="Where the flow leads.")] = "right",
    layout: Annotated[
        Literal["auto", "editor"],
        typer.Option("--layout", help="auto, or the positions of RAGFlow's editor (SVG and PNG)."),
    ] = "auto",
    theme: Annotated[Literal["light", "dark"], typer.Option("--theme", help="Colours of SVG and PNG.")] = "light",
) -> None:
    """Draw a canvas as text, SVG, PNG or Mermaid.

    Conditional edges are dashed; loops are boxes around their bodies; agents list their tools. A canvas that cannot run
    is drawn with its errors marked.

    Example: ragflow-lg draw my_canvas.json -o my_canvas.svg
    """
    from ragflow_lg.dsl_compiler.drawing import sketch_source, to_mermaid, to_png, to_svg, to_text_drawing
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.settings import load_settings

    kind = format or _format_of(output)
    _require_matching_suffix(kind, output)
    if kind == "png" and output is None and sys.stdout.isatty():
        raise typer.BadParameter("A PNG cannot be printed on a terminal; use --output.")
    files = CanvasFiles(load_settings, file, asks_servers=False)
    sketch, diagnostics = sketch_source(read_canvas(file), catalog(), files)
    if sketch is None:
        raise CompileError(diagnostics, file=str(file))
    errors = sum(d.severity == "error" for d in diagnostics)
    if errors:
        print_note(f"The canvas cannot run: {count_of(errors, 'error')}. `ragflow-lg check` lists them.")
    if kind == "mermaid":
        picture = to_mermaid(sketch, direction=direction)
    elif kind == "ascii":
        picture = to_text_drawing(sketch)
    else:
        render = to_png if kind == "png" else to_svg
        picture = render(sketch, direction=direction, theme=theme, as_in_editor=layout == "editor")
    write_output(picture if isinstance(picture, bytes) else picture.encode("utf-8", "replace"), output)


_FORMATS: dict[str, PictureFormat] = {".svg": "svg", ".png": "png", ".mmd": "mermaid", ".mermaid": "mermaid"}


def _require_matching_suffix(kind: PictureFormat, output: Path | None) -> None:
    """Refuse a file name with another format's suffix, because no program could open the file."""
    expected = _FORMATS.get(output.suffix.lower()) if output else None
    if expected not in (None, kind):
        message = f"The name {str(output)!r} means {expected}, not {kind}: leave out --format or change the name."
        raise typer.BadParameter(message, param_hint="--output")


def _format_of(output: Path | None) -> PictureFormat:
    """Return the format for a file name's suffix; ASCII if there is no file or suffix."""
    formats: dict[str, PictureFormat] = {**_FORMATS, ".txt": "ascii", "": "ascii"}
    suffix = output.suffix.lower() if output else ""
    if suffix not in formats:
        known = ", ".join(name for name in formats if name)
        message = f"{suffix!r} is not a format of drawings: use {known}, or set --format."
        raise typer.BadParameter(message, param_hint="--output")
    return formats[suffix]
