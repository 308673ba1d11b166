"""``ragflow-lg canvas``: draw, compare, format and upgrade canvases."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import orjson
import typer

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.diff import diff
from ragflow_lg.server.cli.options import Output
from ragflow_lg.server.cli.terminal import count_of, print_note, write_output

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.upgrade import Change

canvas = make_group("Draw, compare, format and upgrade canvases.")
canvas.command(no_args_is_help=True)(diff)


PictureFormat: TypeAlias = Literal["mermaid", "svg", "png", "ascii"]


@canvas.command(no_args_is_help=True)
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

    Example: ragflow-lg canvas draw my_canvas.json -o my_canvas.svg
    """
    from ragflow_lg.dsl_compiler.drawing import sketch_source, to_mermaid, to_png, to_svg, to_text_drawing
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.settings import load_settings

    kind = _find_format(format, output)
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


def _find_format(format: PictureFormat | None, output: Path | None) -> PictureFormat:
    """Return the wanted format, or that of a file name's suffix; ASCII if there is no file or suffix.

    A name with another format's suffix is refused, because no program could open the file.
    """
    suffix = output.suffix.lower() if output else ""
    expected = _FORMATS.get(suffix)
    if format is None and expected is None and suffix not in (".txt", ""):
        message = f"{suffix!r} is not a format of drawings: use {', '.join(_FORMATS)}, .txt, or set --format."
        raise typer.BadParameter(message, param_hint="--output")
    kind = format or expected or "ascii"
    if expected not in (None, kind):
        message = f"The name {str(output)!r} means {expected}, not {kind}: leave out --format or change the name."
        raise typer.BadParameter(message, param_hint="--output")
    return kind


@canvas.command(no_args_is_help=True)
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
    ragflow-lg canvas fmt my_canvas.json

    ragflow-lg canvas fmt --check canvases/*.json
    """
    from ragflow_lg.dsl_compiler.canvas_format import format_canvas
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.cli.terminal import replace_file

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


@canvas.command(no_args_is_help=True)
def upgrade(file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")], output: Output = None) -> None:
    """Upgrade a canvas from before RAGFlow 0.20.

    Answer, Generate, Relevant and the other components that RAGFlow removed are replaced by those of today. The report
    on standard error says what became of each, and what may behave differently. RAGFlow and ragflow-lg run the result.

    Example: ragflow-lg canvas upgrade old.json -o new.json
    """
    from ragflow_lg.dsl_compiler import upgrade_source
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import catalog

    upgraded = upgrade_source(read_canvas(file), catalog())
    content = orjson.dumps(upgraded.document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_output(content, output)
    sys.stderr.write(_as_text(upgraded.changes))


def _as_text(changes: Sequence[Change]) -> str:
    if not changes:
        return "Nothing was upgraded: the canvas has no component from before RAGFlow 0.20.\n"
    lines = [f"{'!' if change.is_difference else ' '} {change.id}: {change}" for change in changes]
    count = sum(change.is_difference for change in changes)
    summary = f"{len(changes)} components were upgraded; {count} of them may behave differently (marked with !)."
    return "\n".join([*lines, summary]) + "\n"


@canvas.command()
def schema(output: Output = None) -> None:
    """Print the JSON Schema of canvases.

    It contains this version's components.

    Example: ragflow-lg canvas schema -o canvas.schema.json
    """
    from ragflow_lg.dsl_compiler.schema import canvas_schema
    from ragflow_lg.server.assembly.library import catalog

    write_output((json.dumps(canvas_schema(catalog()), ensure_ascii=False, indent=2) + "\n").encode(), output)
