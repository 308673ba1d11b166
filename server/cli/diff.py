"""``ragflow-lg canvas diff``: what differs between two canvases, as text or as a page with both drawings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
    from ragflow_lg.server.settings import load_settings

    def sketch(file: Path) -> Sketch:
        files = CanvasFiles(load_settings, file, asks_servers=False)
        drawn, diagnostics = sketch_source(read_canvas(file), catalog(), files)
        if drawn is None:
            raise CompileError(diagnostics, file=str(file))
        return drawn

    return build_page((old.name, new.name), (sketch(old), sketch(new)), found, as_lines(found))


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


_STYLE = """
body { font: 14px/1.5 Inter, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; margin: 24px; color: #1d2733; }
h1 { font-size: 20px; } h2 { font-size: 15px; margin: 28px 0 8px; }
figure { margin: 0; overflow: auto; border: 1px solid #d6dde4; border-radius: 8px; }
svg { max-width: none; display: block; }
pre { background: #f5f7f9; padding: 10px 14px; border-radius: 8px; overflow: auto; white-space: pre-wrap; }
.added { color: #1f7a53; } .removed { color: #b23b3b; } .changed { color: #9a6410; }
.key span { margin-right: 18px; }
""".strip()


def build_page(
    names: tuple[str, str], sketches: tuple[Sketch, Sketch], found: Sequence[Difference], lines: Iterable[str]
) -> str:
    """Return the page.

    Args:
        names: The names of the old and the new file.
        sketches: Their sketches.
        found: What differs.
        lines: The same as text.
    """
    old, new = sketches
    marked = [(names[0], old.with_marks(_marks(found, "removed"))), (names[1], new.with_marks(_marks(found, "added")))]
    drawings = "".join(f"<h2>{escape(name)}</h2>\n<figure>{to_svg(sketch)}</figure>\n" for name, sketch in marked)
    summary = "The canvases do not differ, apart from their layout." if not found else "Changes, node by node:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(names[0])} → {escape(names[1])}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(names[0])} → {escape(names[1])}</h1>\n"
        '<p class="key"><span class="added">■ added</span><span class="changed">■ changed</span>'
        '<span class="removed">■ removed</span></p>\n'
        f"{drawings}<h2>{summary}</h2>\n<pre>{_colour(lines)}</pre>\n</body>\n</html>\n"
    )


def _marks(found: Sequence[Difference], own: Mark) -> dict[str, Mark]:
    """Return the marks of one drawing: ``own`` for the nodes that only this canvas has."""
    marks: dict[str, Mark] = {}
    for difference in found:
        if difference.kind == own:
            marks[difference.node] = own
        elif difference.kind == "changed" and difference.path != (EDGES,):
            marks[difference.node] = "changed"
    return marks


_CLASSES = {"+": "added", "-": "removed", "~": "changed"}


def _colour(lines: Iterable[str]) -> str:
    parts: list[str] = []
    for line in lines:
        name = _CLASSES.get(line.strip()[:1])
        parts.append(f'<span class="{name}">{escape(line)}</span>' if name else escape(line))
    return "\n".join(parts)
