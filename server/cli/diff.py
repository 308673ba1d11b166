"""``ragflow-lg canvas diff``: what differs between two canvases, as text or as a page with both drawings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from markupsafe import Markup

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler.comparison import EDGES, Difference
from ragflow_lg.dsl_compiler.drawing import Sketch, to_svg

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.comparison import Difference
    from ragflow_lg.dsl_compiler.drawing import Sketch
    from ragflow_lg.dsl_compiler.drawing.sketch import Mark


SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def diff(
    old: Annotated[Path, typer.Argument(help="Canvas file.", metavar="OLD")],
    new: Annotated[Path, typer.Argument(help="Canvas file.", metavar="NEW")],
    output: Annotated[
        Literal["text", "json", "html"],
        typer.Option("--output", "-o", help="text, json, or html: a page with both drawings."),
    ] = "text",
) -> None:
    """Show what differs between two canvases, apart from their layout.

    Nodes, edges, routes, parameters and variables are compared; positions and the state of stored runs are not. Texts
    with several lines, such as prompts, are shown as a diff of their own. Exit code 0: no difference. 1: differences.

    Examples:
    ragflow-lg canvas diff published.json draft.json

    ragflow-lg canvas diff published.json draft.json --output html > changes.html
    """
    from ragflow_lg.dsl_compiler.comparison import compare_canvases
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import catalog

    found = compare_canvases(read_canvas(old), read_canvas(new), catalog())
    if output == "json":
        sys.stdout.write(json.dumps([_as_dict(each) for each in found], indent=2, ensure_ascii=False) + "\n")
    elif output == "html":
        sys.stdout.write(_as_page(old, new, found))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in as_lines(found)))
    raise typer.Exit(1 if found else 0)


def _as_page(old: Path, new: Path, found: Sequence[Difference]) -> str:
    from ragflow_lg.dsl_compiler.drawing import sketch_source
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.cli.pages import render_page
    from ragflow_lg.server.settings import load_settings

    def sketch(file: Path) -> Sketch:
        files = CanvasFiles(load_settings, file, asks_servers=False)
        drawn, diagnostics = sketch_source(read_canvas(file), catalog(), files)
        if drawn is None:
            raise CompileError(diagnostics, file=str(file))
        return drawn

    def draw(file: Path, own: Mark) -> tuple[str, Markup]:
        return file.name, Markup(to_svg(sketch(file).with_marks(_marks(found, own))))

    return render_page(
        "diff.html",
        drawings=[draw(old, "removed"), draw(new, "added")],
        lines=[(_CLASSES.get(line.strip()[:1]), line) for line in as_lines(found)],
    )


_CLASSES = {sign: kind for kind, sign in SIGNS.items()}


def _as_dict(difference: Difference) -> dict[str, Any]:
    from ragflow_lg.dsl_compiler.comparison import MISSING

    entries = difference._asdict() | {"path": list(difference.path)}
    return {key: value for key, value in entries.items() if value is not MISSING}


def as_lines(found: Sequence[Difference]) -> Iterator[str]:
    """Yield differences as lines for a terminal."""
    last = None
    for difference in found:
        if (difference.kind, difference.node) != last:
            last = (difference.kind, difference.node)
            name = f"{difference.component} {difference.node}" if difference.node else "Variables"
            title = f' "{difference.title}"' if difference.title else ""
            yield f"{SIGNS[difference.kind]} {name}{title}"
        if difference.kind == "changed":
            yield from (f"    {line}" for line in _change(difference))


def _change(difference: Difference) -> Iterator[str]:
    from ragflow_lg.dsl_compiler.comparison import EDGES, MISSING

    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in difference.path).removeprefix(".")
    old, new = difference.old, difference.new
    if difference.path == (EDGES,):
        changes = [*(f"+{id_}" for id_ in new if id_ not in old), *(f"-{id_}" for id_ in old if id_ not in new)]
        yield f"{path}: {' '.join(changes)}"
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        yield f"{path}:"
        lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
        yield from (f"  {line}" for line in list(lines)[2:])
    elif old is MISSING:
        yield f"{path}: + {_short(new)}"
    elif new is MISSING:
        yield f"{path}: - {_short(old)}"
    else:
        yield f"{path}: {_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"


def _marks(found: Sequence[Difference], own: Mark) -> dict[str, Mark]:
    """Return the marks of one drawing: ``own`` for the nodes that only this canvas has."""
    marks: dict[str, Mark] = {}
    for difference in found:
        if difference.kind == own:
            marks[difference.node] = own
        elif difference.kind == "changed" and difference.path != (EDGES,):
            marks[difference.node] = "changed"
    return marks
