"""A plan as SVG, and as PNG made of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Edge, Plan, PlanNode
from ragflow_lg.dsl_compiler.langgraph_app.schemas import colour_of
from ragflow_lg.server.drawing.drawing_layout import Box, Layout, drawn_edges, drawn_nodes, label_of, lay_out

__all__ = ["to_png", "to_svg"]

WIDTH, HEIGHT = 216, 56
ROW = 88
"""Distance of two rows."""
MIN_GAP, MAX_GAP = 64, 170
"""Distance of two columns: as wide as the longest label needs, within limits."""
MARGIN = 28
LANE = 18
"""Distance of two edges that lead back below the drawing."""
TITLE_SIZE, KIND_SIZE, LABEL_SIZE = 13.5, 11, 10.5
MAX_PNG_EDGES = 2_000
MAX_PNG_PIXELS = 12_000_000

BACKGROUND, INK, LINE, LABEL = "#fbfcfd", "#1d2733", "#7b8a99", "#51606e"
_FONTS = (
    "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, 'Noto Sans', 'DejaVu Sans', 'Liberation Sans', "
    "'Noto Sans CJK SC', sans-serif"
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Canvas(Struct, frozen=True):
    """Where things stand, in pixels."""

    layout: Layout
    gap: float

    @property
    def width(self) -> float:
        return MARGIN * 2 + self.layout.columns * WIDTH + (self.layout.columns - 1) * self.gap

    @property
    def floor(self) -> float:
        """Bottom of the nodes; edges that lead back run below."""
        return MARGIN + (self.layout.rows - 1) * ROW + HEIGHT

    @property
    def height(self) -> float:
        lanes = len(self.layout.back)
        return self.floor + MARGIN + (lanes * LANE + 10 if lanes else 0)

    def left(self, box: Box) -> float:
        return MARGIN + box.column * (WIDTH + self.gap)

    def middle(self, box: Box) -> float:
        return MARGIN + box.row * ROW + HEIGHT / 2


def to_svg(plan: Plan) -> str:
    """Draw from left to right: titles and component types, dashed edges with labels, boxes round regions."""
    edges = drawn_edges(plan)
    longest = max((_width(_shortened(edge.label, MAX_GAP - 30, LABEL_SIZE), LABEL_SIZE) for edge in edges), default=0)
    canvas = _Canvas(lay_out(plan), min(MAX_GAP, max(MIN_GAP, longest + 34)))
    size = (
        f'width="{canvas.width:.0f}" height="{canvas.height:.0f}" viewBox="0 0 {canvas.width:.0f} {canvas.height:.0f}"'
    )
    labels: list[str] = []
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}">',
        f"<title>{_text(plan.title or 'canvas')}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="{LINE}"/></marker></defs>',
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
        *_regions(plan, canvas),
        *(_edge(edge, canvas, labels) for edge in edges),
        *labels,
        *(_node(node, canvas) for node in drawn_nodes(plan)),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def to_png(plan: Plan) -> bytes:
    """Draw as PNG, at twice the size of the SVG or as large as is sensible.

    The extra brings a font along; titles in scripts that it lacks take one of the system's.

    Raises:
        SettingsError: if the packages of the extra are not installed, or the canvas has more than `MAX_PNG_EDGES`.
    """
    if (edges := sum(len(node.edges) for node in plan.nodes.values())) > MAX_PNG_EDGES:
        raise SettingsError(
            f"A PNG of {edges:,} edges would take minutes; at most {MAX_PNG_EDGES:,} are drawn. Use SVG."
        )
    require("png", "A drawing as PNG")
    import font_roboto
    import resvg_py

    folder = Path(str(font_roboto.__file__)).parent / "files"
    fonts = [str(folder / f"Roboto-{weight}.ttf") for weight in ("Regular", "Medium", "Bold")]
    svg = to_svg(plan)
    width, height = (float(found) for found in re.findall(r'(?:width|height)="(\d+)"', svg)[:2])
    zoom = min(2.0, (MAX_PNG_PIXELS / (width * height)) ** 0.5)
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, font_files=fonts, sans_serif_family="Roboto"))


def _node(node: PlanNode, canvas: _Canvas) -> str:
    box = canvas.layout.boxes[node.id]
    x, y = canvas.left(box), canvas.middle(box) - HEIGHT / 2
    colour = colour_of(node.spec.kind)
    title = _text(_shortened(label_of(node), WIDTH - 30, TITLE_SIZE))
    stripe = f"M{x + 9:.1f},{y:.1f} a9,9 0 0 0 -9,9 v{HEIGHT - 18} a9,9 0 0 0 9,9 h-3 v-{HEIGHT} z"
    return (
        f"<g><title>{_text(node.id)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="9" fill="#fff" '
        f'stroke="{colour}" stroke-opacity="0.55" stroke-width="1.3"/>'
        f'<path d="{stripe}" fill="{colour}"/>'
        f'<text x="{x + 18:.1f}" y="{y + 24:.1f}" font-size="{TITLE_SIZE}" font-weight="600" fill="{INK}">'
        f"{title}</text>"
        f'<text x="{x + 18:.1f}" y="{y + 42:.1f}" font-size="{KIND_SIZE}" fill="{colour}">'
        f"{_text(_shortened(node.spec.name, WIDTH - 30, KIND_SIZE))}</text></g>"
    )


def _edge(edge: Edge, canvas: _Canvas, labels: list[str]) -> str:
    """Draw an edge; its label, if any, is added to ``labels``, which are drawn above all edges."""
    ends = (edge.source, edge.target)
    path, (x, y) = _back_path(ends, canvas) if ends in canvas.layout.back else _path(ends, canvas)
    if edge.label:
        label = _shortened(edge.label, MAX_GAP - 30, LABEL_SIZE)
        half = _width(label, LABEL_SIZE) / 2 + 4
        labels.append(
            f'<rect x="{x - half:.1f}" y="{y - 8:.1f}" width="{half * 2:.1f}" height="16" rx="8" fill="{BACKGROUND}"/>'
            f'<text x="{x:.1f}" y="{y + 3.6:.1f}" text-anchor="middle" font-size="{LABEL_SIZE}" fill="{LABEL}">'
            f"{_text(label)}</text>"
        )
    dashes = ' stroke-dasharray="5 4"' if edge.is_conditional else ""
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.4"{dashes} marker-end="url(#arrow)"/>'


def _path(ends: tuple[NodeId, NodeId], canvas: _Canvas) -> tuple[str, tuple[float, float]]:
    """Give the way of an edge from right to left side, level where it passes a column, and its label's place."""
    source, target = (canvas.layout.boxes[end] for end in ends)
    x, y = canvas.left(source) + WIDTH, canvas.middle(source)
    path, label = f"M{x:.1f},{y:.1f}", None
    for box in (*canvas.layout.bends.get(ends, ()), target):
        is_last = box is target
        next_x, next_y = canvas.left(box) - (2 if is_last else 0), canvas.middle(box)
        half = (next_x - x) / 2
        path += f" C{x + half:.1f},{y:.1f} {next_x - half:.1f},{next_y:.1f} {next_x:.1f},{next_y:.1f}"
        label = label or (x + half, (y + next_y) / 2)
        x, y = next_x + WIDTH, next_y
        if not is_last:
            path += f" H{x:.1f}"
    assert label is not None
    return path, label


def _back_path(ends: tuple[NodeId, NodeId], canvas: _Canvas) -> tuple[str, tuple[float, float]]:
    """Give the way of an edge that leads back: down, below everything, and up again."""
    source, target = (canvas.layout.boxes[end] for end in ends)
    floor = canvas.floor + 14 + LANE * canvas.layout.back.index(ends)
    x, y = canvas.left(source) + WIDTH, canvas.middle(source)
    end_x, end_y = canvas.left(target) - 2, canvas.middle(target)
    out, into = x + 20, end_x - 20
    path = (
        f"M{x:.1f},{y:.1f} Q{out:.1f},{y:.1f} {out:.1f},{y + 20:.1f} "
        f"V{floor - 10:.1f} Q{out:.1f},{floor:.1f} {out - 10:.1f},{floor:.1f} "
        f"H{into + 10:.1f} Q{into:.1f},{floor:.1f} {into:.1f},{floor - 10:.1f} "
        f"V{end_y + 20:.1f} Q{into:.1f},{end_y:.1f} {end_x:.1f},{end_y:.1f}"
    )
    return path, ((out + into) / 2, floor)


def _regions(plan: Plan, canvas: _Canvas) -> Iterable[str]:
    boxes = canvas.layout.boxes
    for region in plan.regions.values():
        inside = [boxes[n] for n in (region.item, *region.body) if n is not None and n in boxes]
        if inside:
            left, right = min(map(canvas.left, inside)) - 14, max(map(canvas.left, inside)) + WIDTH + 14
            top, bottom = (
                min(map(canvas.middle, inside)) - HEIGHT / 2 - 12,
                max(map(canvas.middle, inside)) + HEIGHT / 2 + 12,
            )
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="14" '
                'fill="#eef2f6" stroke="#aebac6" stroke-dasharray="3 3"/>'
            )


def _width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    return size * sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in text)


def _shortened(text: str, room: float, size: float) -> str:
    """Cut a text to the pixels there are, on one line, without characters that turn the writing round."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    if _width(line, size) <= room:
        return line
    while line and _width(line + "…", size) > room:
        line = line[:-1]
    return line.rstrip() + "…"


def _text(text: str) -> str:
    """Escape a text, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub(" ", text))
