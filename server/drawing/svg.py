"""A plan as SVG, and as PNG made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ragflow_lg.errors import SettingsError
from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Edge, Plan, PlanNode
from server.drawing.layout import Layout, drawn_edges, drawn_nodes, label_of, lay_out

__all__ = ["to_png", "to_svg"]

WIDTH, HEIGHT = 190, 54
GAP_X, GAP_Y = 90, 34
MARGIN = 28
MAX_LABEL_CHARS = 22

_COLOURS = {
    "entry": ("#e8f5ee", "#2f9e6e"),
    "message": ("#e9f1fd", "#3b74d6"),
    "model": ("#f4edfc", "#8450c9"),
    "route": ("#fdf3e1", "#cf8a1c"),
    "region": ("#eef2f5", "#5b7083"),
    "interrupt": ("#fdecec", "#cc4b4b"),
}
_PLAIN = ("#ffffff", "#8796a5")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Rect:
    x: float
    y: float
    width: float = WIDTH
    height: float = HEIGHT


def to_svg(plan: Plan) -> str:
    """Draw from left to right: titles and component types, dashed edges with labels, boxes round regions."""
    layout = lay_out(plan)
    rects = {node: _Rect(*_place(layout, node)) for node in layout.boxes}
    width = MARGIN * 2 + layout.columns * WIDTH + (layout.columns - 1) * GAP_X
    lanes = len(layout.back)
    height = MARGIN * 2 + layout.rows * HEIGHT + (layout.rows - 1) * GAP_Y + lanes * 18
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="Inter, Helvetica, Arial, sans-serif">',
        f"<title>{_text(plan.title or 'canvas')}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="#6b7b8c"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fbfcfd"/>',
        *_regions(plan, rects),
    ]
    bottom = height - MARGIN - lanes * 18 + 6
    for index, edge in enumerate(drawn_edges(plan)):
        parts += _edge(edge, rects, layout, bottom + 18 * (index % max(lanes, 1)))
    parts += [piece for node in drawn_nodes(plan) for piece in _node(node, rects[node.id])]
    return "\n".join([*parts, "</svg>"]) + "\n"


def to_png(plan: Plan) -> bytes:
    """Draw as PNG.

    Raises:
        SettingsError: if the package that renders SVG is not installed.
    """
    try:
        import resvg_py
    except ImportError:
        raise SettingsError('PNG needs an extra package: pip install "ragflow-lg[png]", or draw svg.') from None
    return bytes(resvg_py.svg_to_bytes(svg_string=to_svg(plan), zoom=2))


def _place(layout: Layout, node: NodeId) -> tuple[float, float]:
    box = layout.boxes[node]
    return MARGIN + box.column * (WIDTH + GAP_X), MARGIN + box.row * (HEIGHT + GAP_Y)


def _node(node: PlanNode, rect: _Rect) -> list[str]:
    fill, line = _COLOURS.get(node.spec.kind, _PLAIN)
    middle = rect.x + rect.width / 2
    return [
        f'<g><title>{_text(node.id)}</title><rect x="{rect.x:g}" y="{rect.y:g}" width="{rect.width:g}" '
        f'height="{rect.height:g}" rx="10" fill="{fill}" stroke="{line}" stroke-width="1.5"/>',
        f'<text x="{middle:g}" y="{rect.y + 24:g}" text-anchor="middle" font-size="13" font-weight="600" '
        f'fill="#1d2733">{_text(_shortened(label_of(node)))}</text>',
        f'<text x="{middle:g}" y="{rect.y + 41:g}" text-anchor="middle" font-size="11" fill="{line}">'
        f"{_text(node.spec.name)}</text></g>",
    ]


def _edge(edge: Edge, rects: dict[NodeId, _Rect], layout: Layout, lane: float) -> list[str]:
    start, end = rects[edge.source], rects[edge.target]
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    if (edge.source, edge.target) in layout.back:
        x1, y1 = start.x + start.width / 2, start.y + start.height
        x2, y2 = end.x + end.width / 2, end.y + end.height
        path = f"M{x1:g},{y1:g} C{x1:g},{lane:g} {x1:g},{lane:g} {(x1 + x2) / 2:g},{lane:g} S{x2:g},{lane:g} {x2:g},{y2 + 2:g}"
        label_x, label_y = (x1 + x2) / 2, lane - 4
    else:
        bend = max(36.0, (x2 - x1) / 2)
        path = f"M{x1:g},{y1:g} C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2 - 2:g},{y2:g}"
        label_x, label_y = x1 + 10 + GAP_X * 0.35, y1 + (y2 - y1) * 0.35 - 5
    dashes = ' stroke-dasharray="5 4"' if edge.is_conditional else ""
    drawn = [f'<path d="{path}" fill="none" stroke="#6b7b8c" stroke-width="1.4"{dashes} marker-end="url(#arrow)"/>']
    if edge.label:
        drawn.append(
            f'<text x="{label_x:g}" y="{label_y:g}" text-anchor="middle" font-size="10" fill="#51606e" '
            f'paint-order="stroke" stroke="#fbfcfd" stroke-width="4">{_text(_shortened(edge.label))}</text>'
        )
    return drawn


def _regions(plan: Plan, rects: dict[NodeId, _Rect]) -> list[str]:
    boxes: list[str] = []
    for region in plan.regions.values():
        inside = [rects[n] for n in (region.owner, region.item, *region.body) if n is not None and n in rects]
        if len(inside) > 1:
            left, top = min(r.x for r in inside) - 12, min(r.y for r in inside) - 12
            right, bottom = max(r.x + r.width for r in inside) + 12, max(r.y + r.height for r in inside) + 12
            boxes.append(
                f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="14" '
                'fill="#f1f4f7" stroke="#aebac6" stroke-dasharray="3 3"/>'
            )
    return boxes


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"


def _text(text: str) -> str:
    """Escape a text, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub(" ", text))
