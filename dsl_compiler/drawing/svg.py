"""Draws a sketch as SVG, or as PNG rendered from that."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import quoteattr

from markupsafe import Markup
from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import find_cjk_font, require
from ragflow_lg.dsl_compiler.drawing import arrangement
from ragflow_lg.dsl_compiler.drawing.arrangement import Direction, arrange, arrange_as_in_editor, title_lines
from ragflow_lg.dsl_compiler.drawing.node_icons import icon_of
from ragflow_lg.dsl_compiler.drawing.sketch import Mark, Sketch
from ragflow_lg.dsl_compiler.drawing.text_size import shorten_text
from ragflow_lg.dsl_compiler.langgraph_app.schemas import colour_of

if TYPE_CHECKING:
    from jinja2 import Template

MAX_PNG_EDGES = 2_000
MAX_PNG_PIXELS = 12_000_000

_FONTS = (
    "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, 'Noto Sans', 'DejaVu Sans', 'Liberation Sans', "
    "'Noto Sans CJK SC', 'Noto Sans CJK TC', sans-serif"
)
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


ThemeName = Literal["light", "dark"]


class Theme(Struct, frozen=True):
    """The colours of a drawing, as SVG writes them: those of the page, whose style sheet has them as well."""

    background: str
    node: str
    ink: str
    line: str
    label: str
    container: str
    container_line: str
    tint: str
    """Mixed into the colours of the kinds, so that texts in them can be read."""


THEMES: dict[str, Theme] = {
    "light": Theme("#ffffff", "#ffffff", "#1b1f27", "#8a94a3", "#5b6472", "#f6f7f9", "#cdd3dc", "#000000"),
    "dark": Theme("#16181d", "#1d2026", "#e9ebef", "#737c8b", "#a3abb8", "#1a1d23", "#434a57", "#ffffff"),
}

MARKS: dict[Mark, str] = {"added": "#2f9e6e", "removed": "#cc4b4b", "changed": "#cf8a1c", "error": "#cc4b4b"}
"""The colours of marked nodes and edges."""


def mix(colour: str, other: str, share: float) -> str:
    """Return a colour with a share of another one.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    channels = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)


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
    arranged = arrange_as_in_editor(sketch) if as_in_editor else arrange(sketch, direction)
    colours = THEMES[theme]
    return _template().render(
        sketch=sketch,
        containers=sketch.containers,
        boxes=arranged.boxes,
        wires=arranged.wires,
        width=f"{arranged.width:.0f}",
        height=f"{arranged.height:.0f}",
        theme=colours,
        tint=partial(_tint, theme=colours),
    )


def _tint(kind: str, theme: Theme) -> str:
    return mix(colour_of(kind), theme.tint, 0.2)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_written,
        keep_trailing_newline=True,
    )
    sizes = {name: value for name, value in vars(arrangement).items() if name.isupper()}
    functions = {"colour_of": colour_of, "icon_of": icon_of, "shorten": shorten_text, "title_lines": title_lines}
    environment.filters["quoted"] = _quoted
    return environment.get_template("svg.jinja", globals={**sizes, **functions, "fonts": _FONTS, "marks": MARKS})


def _written(value: Any) -> Any:
    """Return a number with one decimal place, and a text without characters that XML does not allow."""
    if isinstance(value, float):
        return f"{value:.1f}"
    return _NOT_XML.sub(" ", value) if type(value) is str else value  # a part of the drawing is a Markup


def _quoted(text: str) -> Markup:
    """Return a text as the value of an attribute, in quotation marks, with line breaks and tabs as references."""
    return Markup(quoteattr(_written(text)))


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
