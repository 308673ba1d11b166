"""Draws a sketch as SVG, or as PNG rendered from that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import find_cjk_font, require
from ragflow_lg.dsl_compiler.drawing.arrangement import (
    BAR,
    CHIP_HEIGHT,
    CHIP_SIZE,
    HEAD,
    INDENT,
    KIND_SIZE,
    LABEL_SIZE,
    LINE_HEIGHT,
    MAX_GAP,
    TITLE_SIZE,
    Box,
    Direction,
    Wire,
    arrange,
    arrange_as_in_editor,
    title_lines,
)
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, SketchNode
from ragflow_lg.dsl_compiler.drawing.text_size import shorten_text, text_width
from ragflow_lg.dsl_compiler.drawing.theme import MARKS, THEMES, Theme, ThemeName, mix
from ragflow_lg.dsl_compiler.langgraph_app.schemas import colour_of

MAX_PNG_EDGES = 2_000
MAX_PNG_PIXELS = 12_000_000

_FONTS = (
    "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, 'Noto Sans', 'DejaVu Sans', 'Liberation Sans', "
    "'Noto Sans CJK SC', 'Noto Sans CJK TC', sans-serif"
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_svg(
    sketch: Sketch, *, direction: Direction = "right", theme: ThemeName = "light", as_in_editor: bool = False
) -> str:
    """Return an SVG with titles, component names, tools, dashed conditional edges and boxes around loops.

    Args:
        sketch: What to draw.
        direction: Where the flow leads.
        theme: The colours.
        as_in_editor: Whether nodes stand where the editor shows them.

    Raises:
        SettingsError: If a node has no position in the editor.
    """
    if as_in_editor:
        _require_positions(sketch)
    arrangement = arrange_as_in_editor(sketch) if as_in_editor else arrange(sketch, direction)
    colours = THEMES[theme]
    width, height = f"{arrangement.width:.0f}", f"{arrangement.height:.0f}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    containers = sketch.containers
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}">',
        f"<title>{_text(sketch.title or 'canvas')}</title>",
        "<defs>",
        *_arrowheads(colours),
        "</defs>",
        f'<rect width="100%" height="100%" fill="{colours.background}"/>',
        *(_container(node, arrangement.boxes[node.id], colours) for node in sketch.nodes if node.id in containers),
        *(_wire(wire, colours) for wire in arrangement.wires),
        *(_label(wire, colours) for wire in arrangement.wires if wire.edge.label),
        *(_node(node, arrangement.boxes[node.id], colours) for node in sketch.nodes if node.id not in containers),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def to_png(
    sketch: Sketch, *, direction: Direction = "right", theme: ThemeName = "light", as_in_editor: bool = False
) -> bytes:
    """Return a PNG that is twice as large as the SVG, with at most `MAX_PNG_PIXELS`.

    The extra ``png`` installs a font, and the extra ``cjk`` one for Chinese, Japanese and Korean. For other scripts, a
    system font is used.

    Raises:
        SettingsError: If the extra is not installed, the canvas has more than `MAX_PNG_EDGES` edges, or a node has no
            position in the editor.
    """
    if (edges := len(sketch.edges)) > MAX_PNG_EDGES:
        raise SettingsError(
            f"A PNG with {edges:,} edges would take minutes; at most {MAX_PNG_EDGES:,} are allowed. Use SVG."
        )
    require("png", "A drawing as PNG")
    import font_roboto
    import resvg_py

    folder = Path(str(font_roboto.__file__)).parent / "files"
    fonts = [str(folder / f"Roboto-{weight}.ttf") for weight in ("Regular", "Medium", "Bold")]
    if cjk := find_cjk_font():
        fonts.append(str(cjk))
    svg = to_svg(sketch, direction=direction, theme=theme, as_in_editor=as_in_editor)
    width, height = (float(size) for size in re.findall(r'(?:width|height)="(\d+)"', svg)[:2])
    zoom = min(2.0, (MAX_PNG_PIXELS / (width * height)) ** 0.5)
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, font_files=fonts, sans_serif_family="Roboto"))


def _require_positions(sketch: Sketch) -> None:
    missing = [node.title for node in sketch.nodes if node.id not in sketch.positions]
    if missing:
        raise SettingsError(f"The canvas has no position for {missing[0][:80]!r}. Draw it with --layout auto.")


def _arrowheads(theme: Theme) -> Iterator[str]:
    for name, colour in {"": theme.line, **MARKS}.items():
        yield (
            f'<marker id="arrow{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="{colour}"/></marker>'
        )


def _node(node: SketchNode, box: Box, theme: Theme) -> str:
    colour = colour_of(node.kind)
    stroke = MARKS.get(node.mark, colour)
    frame = '1.3" stroke-opacity="0.55' if not node.mark else "2.6"
    height = box.height
    stripe = f"M{box.x + 9:.1f},{box.y:.1f} a9,9 0 0 0 -9,9 v{height - 18:.1f} a9,9 0 0 0 9,9 h-3 v-{height:.1f} z"
    parts = [
        f"<g {_names(node)}><title>{_text(_tooltip(node))}</title>",
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{height:.1f}" rx="9" '
        f'fill="{theme.node}" stroke="{stroke}" stroke-width="{frame}"{_removed(node)}/>',
        f'<path d="{stripe}" fill="{stroke}"/>',
    ]
    y = box.y + 24
    for line in title_lines(node, box.width):
        parts.append(
            f'<text x="{box.x + INDENT:.1f}" y="{y:.1f}" font-size="{TITLE_SIZE}" font-weight="600" '
            f'fill="{theme.ink}">{_text(line)}</text>'
        )
        y += LINE_HEIGHT
    parts.append(_kind(node, box, y + 1, theme))
    y = box.y + HEAD + (len(title_lines(node, box.width)) - 1) * LINE_HEIGHT
    return "".join([*parts, *_chips(node, box, y, theme), "</g>"])


def _names(node: SketchNode) -> str:
    """Return the attributes by which pages find the node."""
    parent = f" data-parent={_attribute(node.parent)}" if node.parent else ""
    return f"data-node={_attribute(node.id)}{parent}"


def _tooltip(node: SketchNode) -> str:
    return f"{node.id} ({node.mark})" if node.mark else node.id


def _removed(node: SketchNode) -> str:
    return ' stroke-dasharray="6 4"' if node.mark == "removed" else ""


def _kind(node: SketchNode, box: Box, y: float, theme: Theme) -> str:
    colour = mix(colour_of(node.kind), theme.tint, 0.12)
    name = _text(shorten_text(node.name, box.width - INDENT * 2, KIND_SIZE))
    return f'<text x="{box.x + INDENT:.1f}" y="{y:.1f}" font-size="{KIND_SIZE}" fill="{colour}">{name}</text>'


def _chips(node: SketchNode, box: Box, y: float, theme: Theme) -> Iterator[str]:
    """Yield the tools of an agent, one below the other."""
    for tool in node.tools:
        x = box.x + INDENT + 14 * tool.level
        label = _text(shorten_text(tool.label, box.x + box.width - x - INDENT - 10, CHIP_SIZE))
        colour = mix(colour_of(tool.kind), theme.tint, 0.12)
        yield (
            f"<g data-tool={_attribute(tool.label)}>"
            f'<circle cx="{x + 4:.1f}" cy="{y + CHIP_HEIGHT / 2 - 3:.1f}" r="3.2" fill="{colour}"/>'
            f'<text x="{x + 13:.1f}" y="{y + CHIP_HEIGHT / 2 + 0.7:.1f}" font-size="{CHIP_SIZE}" '
            f'fill="{theme.label}">{label}</text></g>'
        )
        y += CHIP_HEIGHT


def _container(node: SketchNode, box: Box, theme: Theme) -> str:
    colour = MARKS.get(node.mark, colour_of(node.kind))
    title = _text(shorten_text(node.title, box.width - INDENT * 2, TITLE_SIZE))
    width = 2.6 if node.mark else 1.3
    return (
        f"<g {_names(node)}><title>{_text(_tooltip(node))}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="12" '
        f'fill="{theme.container}" stroke="{colour}" stroke-width="{width}" stroke-dasharray="4 3"/>'
        f'<text x="{box.x + INDENT:.1f}" y="{box.y + 21:.1f}" font-size="{TITLE_SIZE}" font-weight="600" '
        f'fill="{theme.ink}">{title}</text>'
        + _kind(node, box, box.y + BAR - 6, theme)
        + _rounds(box, theme)
        + f'<line x1="{box.x:.1f}" y1="{box.y + BAR + 2:.1f}" x2="{box.x + box.width:.1f}" y2="{box.y + BAR + 2:.1f}" '
        f'stroke="{theme.container_line}" stroke-opacity="0.5"/></g>'
    )


def _rounds(box: Box, theme: Theme) -> str:
    """Return the place where a page counts the rounds of a container; it is empty."""
    return (
        f'<text data-rounds="" x="{box.x + box.width - INDENT:.1f}" y="{box.y + BAR - 6:.1f}" text-anchor="end" '
        f'font-size="{KIND_SIZE}" font-weight="600" fill="{theme.ink}"></text>'
    )


def _wire(wire: Wire, theme: Theme) -> str:
    mark = wire.edge.mark
    dashes = ' stroke-dasharray="5 4"' if wire.edge.is_conditional else ""
    return (
        f"<path data-from={_attribute(wire.edge.source)} data-to={_attribute(wire.edge.target)} "
        f'd="{wire.path}" fill="none" stroke="{MARKS.get(mark, theme.line)}" '
        f'stroke-width="{2.4 if mark else 1.4}"{dashes} marker-end="url(#arrow{mark})"/>'
    )


def _label(wire: Wire, theme: Theme) -> str:
    """Return an edge's label, which is drawn above all edges."""
    label = shorten_text(wire.edge.label, MAX_GAP - 30, LABEL_SIZE)
    half = text_width(label, LABEL_SIZE) / 2 + 5
    return (
        f'<rect x="{wire.label_x - half:.1f}" y="{wire.label_y - 8:.1f}" width="{half * 2:.1f}" height="16" rx="8" '
        f'fill="{theme.background}" fill-opacity="0.9"/>'
        f'<text x="{wire.label_x:.1f}" y="{wire.label_y + 3.6:.1f}" text-anchor="middle" font-size="{LABEL_SIZE}" '
        f'fill="{theme.label}">{_text(label)}</text>'
    )


def _text(text: str) -> str:
    """Escape a text for XML, removing characters that XML does not allow."""
    return escape(_NOT_XML.sub(" ", text))


def _attribute(text: str) -> str:
    """Return a text as the value of an attribute, in quotation marks."""
    return quoteattr(_NOT_XML.sub(" ", text))
