"""``ragflow-lg draw``: a picture of a canvas."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.assembly.library import sketch_file

__all__ = ["draw"]


class Format(StrEnum):
    """Kinds of pictures."""

    MERMAID = "mermaid"
    SVG = "svg"
    PNG = "png"
    ASCII = "ascii"


def draw(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="Kind of picture. Default: as the output file is called.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; without it the picture is printed.")
    ] = None,
) -> None:
    """Draw a canvas: real titles, dashed edges where the way depends on the run, boxes round loops.

    Example: ragflow-lg draw my_canvas.json -o my_canvas.svg
    """
    from ragflow_lg.server.drawing import to_mermaid, to_png, to_svg, to_text_drawing

    kind = format or _kind_of(output)
    _refuse_misnamed(kind, output)
    plan, diagnostics = sketch_file(file)
    if plan is None:
        raise CompileError(diagnostics)
    if kind is Format.PNG:
        picture = to_png(plan)
    else:
        make = {Format.MERMAID: to_mermaid, Format.SVG: to_svg, Format.ASCII: to_text_drawing}[kind]
        picture = make(plan).encode("utf-8", "replace")
    if output is not None:
        try:
            output.write_bytes(picture)
        except OSError as error:
            raise typer.BadParameter(f"{str(output)!r} cannot be written: {error.strerror}.") from None
    elif kind is Format.PNG and sys.stdout.isatty():
        raise typer.BadParameter("A PNG is no text; name a file with --output.")
    else:
        sys.stdout.buffer.write(picture)
        sys.stdout.buffer.flush()


_PICTURES = {".svg": Format.SVG, ".png": Format.PNG, ".mmd": Format.MERMAID, ".mermaid": Format.MERMAID}


def _refuse_misnamed(kind: Format, output: Path | None) -> None:
    """Refuse a file that is called like another kind of picture: nothing could open it."""
    named = _PICTURES.get(output.suffix.lower()) if output else None
    if named not in (None, kind):
        message = f"{str(output)!r} is called like {named}, not like {kind}: leave --format out, or name another file."
        raise typer.BadParameter(message, param_hint="--output")


def _kind_of(output: Path | None) -> Format:
    """Give the kind of picture that a file's name asks for; text where it asks for none."""
    kinds = {**_PICTURES, ".txt": Format.ASCII, "": Format.ASCII}
    suffix = output.suffix.lower() if output else ""
    if suffix not in kinds:
        known = ", ".join(name for name in kinds if name)
        message = f"{suffix!r} is no kind of picture: use {known}, or say --format."
        raise typer.BadParameter(message, param_hint="--output")
    return kinds[suffix]
