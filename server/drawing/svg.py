"""Draws a plan as SVG, or as PNG rendered from that."""

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
from ragflow_lg.server.drawing.drawing_layout import Box, Layout, label_of, lay_out, visible_edges, visible_nodes

WIDTH, HEIGHT = 216, 56
ROW = 88
"""Distance between two rows. All sizes here are in pixels."""
MIN_GAP, MAX_GAP = 64, 170
"""Limits for the gap between two columns, which is wide enough for the longest label."""
MARGIN = 28
LANE = 18
"""Distance between two back edges, which run below the nodes."""
TITLE_SIZE, KIND_SIZE, LABEL_SIZE = 13.5, 11, 10.5
MAX_PNG_EDGES = 2_000
MAX_PNG_PIXELS = 12_000_000

BACKGROUND, INK, LINE, LABEL = "#fbfcfd", "#1d2733", "#7b8a99", "#51606e"
_FONTS = (
    "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, 'Noto Sans', 'DejaVu Sans', 'Liberation Sans', "
    "'Noto Sans CJK SC', sans-serif"
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Geometry(Struct, frozen=True):
    """A layout in pixels."""

    layout: Layout
    gap: float

    @property
    def width(self) -> float:
        return MARGIN * 2 + self.layout.columns * WIDTH + (self.layout.columns - 1) * self.gap

    @property
    def floor(self) -> float:
        """Bottom edge of the nodes; back edges run below."""
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
    """Return an SVG from left to right, with titles, component names, dashed conditional edges and region boxes."""
    edges = visible_edges(plan)
    longest = max((_width(_shorten(edge.label, MAX_GAP - 30, LABEL_SIZE), LABEL_SIZE) for edge in edges), default=0)
    geometry = _Geometry(lay_out(plan), min(MAX_GAP, max(MIN_GAP, longest + 34)))
    width, height = f"{geometry.width:.0f}", f"{geometry.height:.0f}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    labels: list[str] = []
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}">',
        f"<title>{_text(plan.title or 'canvas')}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="{LINE}"/></marker></defs>',
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
        *_regions(plan, geometry),
        *(_edge(edge, geometry, labels) for edge in edges),
        *labels,
        *(_node(node, geometry) for node in visible_nodes(plan)),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def to_png(plan: Plan) -> bytes:
    """Return a PNG that is twice as large as the SVG, with at most `MAX_PNG_PIXELS`.

    The extra installs a font. For scripts that it lacks, a system font is used.

    Raises:
        SettingsError: If the extra is not installed, or the canvas has more than `MAX_PNG_EDGES` edges.
    """
    if (edges := sum(len(node.edges) for node in plan.nodes.values())) > MAX_PNG_EDGES:
        raise SettingsError(
            f"A PNG with {edges:,} edges would take minutes; at most {MAX_PNG_EDGES:,} are allowed. Use SVG."
        )
    require("png", "A drawing as PNG")
    import font_roboto
    import resvg_py

    folder = Path(str(font_roboto.__file__)).parent / "files"
    fonts = [str(folder / f"Roboto-{weight}.ttf") for weight in ("Regular", "Medium", "Bold")]
    svg = to_svg(plan)
    width, height = (float(size) for size in re.findall(r'(?:width|height)="(\d+)"', svg)[:2])
    zoom = min(2.0, (MAX_PNG_PIXELS / (width * height)) ** 0.5)
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, font_files=fonts, sans_serif_family="Roboto"))


def _node(node: PlanNode, geometry: _Geometry) -> str:
    box = geometry.layout.boxes[node.id]
    x, y = geometry.left(box), geometry.middle(box) - HEIGHT / 2
    colour = colour_of(node.spec.kind)
    title = _text(_shorten(label_of(node), WIDTH - 30, TITLE_SIZE))
    stripe = f"M{x + 9:.1f},{y:.1f} a9,9 0 0 0 -9,9 v{HEIGHT - 18} a9,9 0 0 0 9,9 h-3 v-{HEIGHT} z"
    return (
        f"<g><title>{_text(node.id)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="9" fill="#fff" '
        f'stroke="{colour}" stroke-opacity="0.55" stroke-width="1.3"/>'
        f'<path d="{stripe}" fill="{colour}"/>'
        f'<text x="{x + 18:.1f}" y="{y + 24:.1f}" font-size="{TITLE_SIZE}" font-weight="600" fill="{INK}">'
        f"{title}</text>"
        f'<text x="{x + 18:.1f}" y="{y + 42:.1f}" font-size="{KIND_SIZE}" fill="{colour}">'
        f"{_text(_shorten(node.spec.name, WIDTH - 30, KIND_SIZE))}</text></g>"
    )


def _edge(edge: Edge, geometry: _Geometry, labels: list[str]) -> str:
    """Return an edge and append its label to ``labels``, which are drawn on top of all edges."""
    ends = (edge.source, edge.target)
    path, (x, y) = _back_path(ends, geometry) if ends in geometry.layout.back else _path(ends, geometry)
    if edge.label:
        label = _shorten(edge.label, MAX_GAP - 30, LABEL_SIZE)
        half = _width(label, LABEL_SIZE) / 2 + 4
        labels.append(
            f'<rect x="{x - half:.1f}" y="{y - 8:.1f}" width="{half * 2:.1f}" height="16" rx="8" fill="{BACKGROUND}"/>'
            f'<text x="{x:.1f}" y="{y + 3.6:.1f}" text-anchor="middle" font-size="{LABEL_SIZE}" fill="{LABEL}">'
            f"{_text(label)}</text>"
        )
    dashes = ' stroke-dasharray="5 4"' if edge.is_conditional else ""
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.4"{dashes} marker-end="url(#arrow)"/>'


def _path(ends: tuple[NodeId, NodeId], geometry: _Geometry) -> tuple[str, tuple[float, float]]:
    """Return an edge's path, which is horizontal where it passes a column, and its label's position."""
    source, target = (geometry.layout.boxes[end] for end in ends)
    x, y = geometry.left(source) + WIDTH, geometry.middle(source)
    path, label = f"M{x:.1f},{y:.1f}", None
    for box in (*geometry.layout.bends.get(ends, ()), target):
        is_last = box is target
        next_x, next_y = geometry.left(box) - (2 if is_last else 0), geometry.middle(box)
        half = (next_x - x) / 2
        path += f" C{x + half:.1f},{y:.1f} {next_x - half:.1f},{next_y:.1f} {next_x:.1f},{next_y:.1f}"
        label = label or (x + half, (y + next_y) / 2)
        x, y = next_x + WIDTH, next_y
        if not is_last:
            path += f" H{x:.1f}"
    assert label is not None
    return path, label


def _back_path(ends: tuple[NodeId, NodeId], geometry: _Geometry) -> tuple[str, tuple[float, float]]:
    """Return a back edge's path, which runs below all nodes, and its label's position."""
    source, target = (geometry.layout.boxes[end] for end in ends)
    floor = geometry.floor + 14 + LANE * geometry.layout.back.index(ends)
    x, y = geometry.left(source) + WIDTH, geometry.middle(source)
    end_x, end_y = geometry.left(target) - 2, geometry.middle(target)
    out, into = x + 20, end_x - 20
    path = (
        f"M{x:.1f},{y:.1f} Q{out:.1f},{y:.1f} {out:.1f},{y + 20:.1f} "
        f"V{floor - 10:.1f} Q{out:.1f},{floor:.1f} {out - 10:.1f},{floor:.1f} "
        f"H{into + 10:.1f} Q{into:.1f},{floor:.1f} {into:.1f},{floor - 10:.1f} "
        f"V{end_y + 20:.1f} Q{into:.1f},{end_y:.1f} {end_x:.1f},{end_y:.1f}"
    )
    return path, ((out + into) / 2, floor)


def _regions(plan: Plan, geometry: _Geometry) -> Iterable[str]:
    boxes = geometry.layout.boxes
    for region in plan.regions.values():
        inside = [boxes[n] for n in (region.item, *region.body) if n is not None and n in boxes]
        if inside:
            left, right = min(map(geometry.left, inside)) - 14, max(map(geometry.left, inside)) + WIDTH + 14
            top, bottom = (
                min(map(geometry.middle, inside)) - HEIGHT / 2 - 12,
                max(map(geometry.middle, inside)) + HEIGHT / 2 + 12,
            )
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="14" '
                'fill="#eef2f6" stroke="#aebac6" stroke-dasharray="3 3"/>'
            )


def _width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    return size * sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in text)


def _shorten(text: str, room: float, size: float) -> str:
    """Cut a text to ``room`` pixels on one line, removing invisible characters such as those that change direction."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    if _width(line, size) <= room:
        return line
    while line and _width(line + "…", size) > room:
        line = line[:-1]
    return line.rstrip() + "…"


def _text(text: str) -> str:
    """Escape a text for XML, removing characters that XML does not allow."""
    return escape(_NOT_XML.sub(" ", text))
