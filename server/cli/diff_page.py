"""A page that shows what differs between two canvases: both drawings with marks, and the changes as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ragflow_lg.dsl_compiler.comparison import EDGES, Difference
from ragflow_lg.dsl_compiler.drawing import Sketch, to_svg

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.drawing.sketch import Mark

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
