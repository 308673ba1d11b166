"""``ragflow-lg draw``: draw a canvas."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.assembly.library import sketch_file


class PictureFormat(StrEnum):
    """Drawing formats."""

    MERMAID = "mermaid"
    SVG = "svg"
    PNG = "png"
    ASCII = "ascii"


def draw(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    format: Annotated[
        PictureFormat | None,
        typer.Option("--format", "-f", help="Format of the drawing. Default: by the name of the output file."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Draw a canvas as text, SVG, PNG or Mermaid.

    Conditional edges are dashed; loops have boxes.

    Example: ragflow-lg draw my_canvas.json -o my_canvas.svg
    """
    from ragflow_lg.server.drawing import to_mermaid, to_png, to_svg, to_text_drawing

    kind = format or _format_of(output)
    _require_matching_suffix(kind, output)
    plan, diagnostics = sketch_file(file)
    if plan is None:
        raise CompileError(diagnostics, file=str(file))
    if kind is PictureFormat.PNG:
        picture = to_png(plan)
    else:
        to_text = {
            PictureFormat.MERMAID: to_mermaid,
            PictureFormat.SVG: to_svg,
            PictureFormat.ASCII: to_text_drawing,
        }[kind]
        picture = to_text(plan).encode("utf-8", "replace")
    if output is not None:
        try:
            output.write_bytes(picture)
        except OSError as error:
            raise typer.BadParameter(f"{str(output)!r} cannot be written: {error.strerror}.") from None
    elif kind is PictureFormat.PNG and sys.stdout.isatty():
        raise typer.BadParameter("A PNG cannot be printed on a terminal; use --output.")
    else:
        sys.stdout.buffer.write(picture)
        sys.stdout.buffer.flush()


_FORMATS = {
    ".svg": PictureFormat.SVG,
    ".png": PictureFormat.PNG,
    ".mmd": PictureFormat.MERMAID,
    ".mermaid": PictureFormat.MERMAID,
}


def _require_matching_suffix(kind: PictureFormat, output: Path | None) -> None:
    """Refuse a file name with another format's suffix, because no program could open the file."""
    expected = _FORMATS.get(output.suffix.lower()) if output else None
    if expected not in (None, kind):
        message = f"The name {str(output)!r} means {expected}, not {kind}: leave out --format or change the name."
        raise typer.BadParameter(message, param_hint="--output")


def _format_of(output: Path | None) -> PictureFormat:
    """Return the format for a file name's suffix; ASCII if there is no file or suffix."""
    formats = {**_FORMATS, ".txt": PictureFormat.ASCII, "": PictureFormat.ASCII}
    suffix = output.suffix.lower() if output else ""
    if suffix not in formats:
        known = ", ".join(name for name in formats if name)
        message = f"{suffix!r} is not a format of drawings: use {known}, or set --format."
        raise typer.BadParameter(message, param_hint="--output")
    return formats[suffix]
