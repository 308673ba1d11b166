"""Elements of Word documents that python-docx has no methods for, such as formulas as Office Math (OMML)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ragflow_lg.adapters.reports import report_tree as tree

_NAMESPACES = {
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "o": "urn:schemas-microsoft-com:office:office",
    "v": "urn:schemas-microsoft-com:vml",
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "xml": "http://www.w3.org/XML/1998/namespace",
}

BULLET_LIST, NUMBERED_LIST = 9001, 9002
"""Ids of the definitions that `define_lists` adds."""

MAX_LEVEL = 8
"""The last of the levels of a list, which Word counts from 0."""

_BULLETS = ("•", "◦", "▪")
_NUMBERS = ("decimal", "lowerLetter", "lowerRoman")
_INDENT_TWIPS = 360
_PARAGRAPH_PROPERTIES = ("pStyle", "numPr", "pBdr", "shd", "tabs", "bidi", "spacing", "ind", "contextualSpacing", "jc")
_ORDER = {name: number for number, name in enumerate(_PARAGRAPH_PROPERTIES)}
_WATERMARK_FORMULAS = (
    "sum #0 0 10800",
    "prod #0 2 1",
    "sum 21600 0 @1",
    "sum 0 0 @2",
    "sum 21600 0 @3",
    "if @0 @3 0",
    "if @0 21600 @1",
    "if @0 0 @2",
    "if @0 @4 21600",
    "mid @5 @6",
    "mid @8 @5",
    "mid @7 @8",
    "mid @6 @7",
    "sum @6 0 @5",
)
"""The geometry of the shape that Word uses for text along a path."""


def add_element(parent: Any, name: str, attributes: Mapping[str, str] | None = None) -> Any:
    """Add an element, such as ``w:pPr``, to an element, and return it. Names without a prefix have no namespace."""
    library: Any = import_module("lxml.etree")
    return library.SubElement(
        parent,
        _qualified(name),
        {_qualified(key): value for key, value in (attributes or {}).items()},
        nsmap={"m": _NAMESPACES["m"]} if name.startswith("m:") else None,
    )


def _qualified(name: str) -> str:
    prefix, colon, local = name.partition(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}" if colon else name


def add_field(new_run: Callable[[str], Any], instruction: str) -> None:
    """Add a field, such as ``PAGE``; ``new_run`` adds a run with a text."""
    for kind in ("begin", "instruction", "separate", "result", "end"):
        run = new_run("1" if kind == "result" else "")
        if kind == "instruction":
            add_element(run, "w:instrText", {"xml:space": "preserve"}).text = f" {instruction} "
        elif kind != "result":
            add_element(run, "w:fldChar", {"w:fldCharType": kind})


def order_properties(properties: Any) -> None:
    """Put the children of an element ``w:pPr`` into the order that Word requires."""
    children = sorted(properties, key=lambda child: _ORDER.get(child.tag.rpartition("}")[2], len(_ORDER)))
    for child in children:
        properties.append(child)


def add_watermark(run: Any, text: str) -> None:
    """Add a watermark to a run in a header, as Word does."""
    width = min(480.0, max(120.0, 45.0 * len(text)))
    height = min(120.0, 1.7 * width / max(1, len(text)))
    style = (
        f"position:absolute;margin-left:0;margin-top:0;width:{width:.0f}pt;height:{height:.0f}pt;rotation:315;"
        "z-index:-251654144;mso-position-horizontal:center;mso-position-horizontal-relative:margin;"
        "mso-position-vertical:center;mso-position-vertical-relative:margin"
    )
    picture = add_element(run, "w:pict")
    kind = add_element(picture, "v:shapetype", {"id": "_x0000_t136", "coordsize": "21600,21600", "o:spt": "136"})
    kind.set("adj", "10800")
    kind.set("path", "m@7,l@8,m@5,21600l@6,21600e")
    formulas = add_element(kind, "v:formulas")
    for equation in _WATERMARK_FORMULAS:
        add_element(formulas, "v:f", {"eqn": equation})
    add_element(kind, "v:path", {"textpathok": "t", "o:connecttype": "rect"})
    add_element(kind, "v:textpath", {"on": "t", "fitshape": "t"})
    shape = add_element(
        picture,
        "v:shape",
        {"id": "Watermark", "o:spid": "_x0000_s2049", "type": "#_x0000_t136", "style": style, "stroked": "f"},
    )
    shape.set("fillcolor", "#c0c0c0")
    add_element(shape, "v:fill", {"opacity": ".4"})
    add_element(shape, "v:textpath", {"style": 'font-family:"Calibri";font-size:1pt', "string": text})


def define_lists(numbering: Any) -> None:
    """Add the definitions of bulleted and numbered lists to an element ``w:numbering``."""
    for position, number in enumerate((BULLET_LIST, NUMBERED_LIST)):
        definition = add_element(numbering, "w:abstractNum", {"w:abstractNumId": str(number)})
        numbering.remove(definition)
        numbering.insert(position, definition)  # definitions precede their uses
        add_element(definition, "w:multiLevelType", {"w:val": "hybridMultilevel"})
        for level in range(MAX_LEVEL + 1):
            _define_level(definition, level, is_numbered=number == NUMBERED_LIST)


def _define_level(definition: Any, level: int, *, is_numbered: bool) -> None:
    element = add_element(definition, "w:lvl", {"w:ilvl": str(level)})
    add_element(element, "w:start", {"w:val": "1"})
    add_element(element, "w:numFmt", {"w:val": _NUMBERS[level % 3] if is_numbered else "bullet"})
    add_element(element, "w:lvlText", {"w:val": f"%{level + 1}." if is_numbered else _BULLETS[level % 3]})
    add_element(element, "w:lvlJc", {"w:val": "left"})
    indent = {"w:left": str(_INDENT_TWIPS * (level + 1)), "w:hanging": str(_INDENT_TWIPS)}
    add_element(add_element(element, "w:pPr"), "w:ind", indent)


def start_list(numbering: Any, number: int, start: int | None) -> None:
    """Add the list ``number`` to an element ``w:numbering``; ``start`` is its first number, None for bullets."""
    element = add_element(numbering, "w:num", {"w:numId": str(number)})
    kind = BULLET_LIST if start is None else NUMBERED_LIST
    add_element(element, "w:abstractNumId", {"w:val": str(kind)})
    if start is not None:
        for level in range(MAX_LEVEL + 1):
            override = add_element(element, "w:lvlOverride", {"w:ilvl": str(level)})
            add_element(override, "w:startOverride", {"w:val": str(start)})


_LARGE = frozenset("∑∏∐⋂⋃⨁⨂")
"""Signs whose limits are above and below them."""

_OVERLINES = frozenset("―‾¯_")


def add_formula(paragraph: Any, formula: tree.Formula, *, is_block: bool) -> None:
    """Add a formula to an element ``w:p``."""
    parent = add_element(paragraph, "m:oMathPara") if is_block else paragraph
    _write(add_element(parent, "m:oMath"), formula)


def _write(parent: Any, formula: tree.Formula) -> None:
    if isinstance(formula, tree.Atom):
        _write_atom(parent, formula)
    elif isinstance(formula, tree.Row):
        for part in formula.parts or (tree.Atom("text", "\u200b"),):  # programs expect something before an equals sign
            _write(parent, part)
    elif isinstance(formula, tree.Fraction):
        fraction = add_element(parent, "m:f")
        if not formula.has_line:
            add_element(add_element(fraction, "m:fPr"), "m:type", {"m:val": "noBar"})
        _write(add_element(fraction, "m:num"), formula.top)
        _write(add_element(fraction, "m:den"), formula.bottom)
    elif isinstance(formula, tree.Root):
        _write_root(parent, formula)
    elif isinstance(formula, tree.Scripts):
        _write_scripts(parent, formula)
    elif isinstance(formula, tree.Accent):
        _write_accent(parent, formula)
    elif isinstance(formula, tree.Fence):
        _write_fence(parent, formula)
    elif isinstance(formula, tree.Grid):
        _write_grid(parent, formula)
    elif formula.width > 0:
        _write_atom(parent, tree.Atom("text", "\u2003" if formula.width >= 1 else "\u2009"))


def _write_atom(parent: Any, atom: tree.Atom) -> None:
    run = add_element(parent, "m:r")
    if atom.kind in ("text", "name"):
        add_element(add_element(run, "m:rPr"), "m:sty", {"m:val": "p"})
    add_element(run, "m:t", {"xml:space": "preserve"}).text = atom.text


def _write_root(parent: Any, root: tree.Root) -> None:
    radical = add_element(parent, "m:rad")
    if root.index is None:
        add_element(add_element(radical, "m:radPr"), "m:degHide", {"m:val": "1"})
    degree = add_element(radical, "m:deg")
    if root.index is not None:
        _write(degree, root.index)
    _write(add_element(radical, "m:e"), root.body)


def _write_scripts(parent: Any, scripts: tree.Scripts) -> None:
    lower, upper, base = scripts.lower, scripts.upper, scripts.base
    if scripts.is_limits or (isinstance(base, tree.Atom) and base.text in _LARGE):
        if lower is not None and upper is not None:
            base = tree.Scripts(base, lower, None, True)
        limit = add_element(parent, "m:limLow" if upper is None else "m:limUpp")
        _write(add_element(limit, "m:e"), base)
        _write(add_element(limit, "m:lim"), upper or lower or tree.Row(()))
        return
    name = "m:sSubSup" if lower is not None and upper is not None else "m:sSub" if lower is not None else "m:sSup"
    element = add_element(parent, name)
    _write(add_element(element, "m:e"), base)
    for tag, part in (("m:sub", lower), ("m:sup", upper)):
        if part is not None:
            _write(add_element(element, tag), part)


def _write_accent(parent: Any, accent: tree.Accent) -> None:
    if accent.mark in _OVERLINES:
        element = add_element(parent, "m:bar")
        position = "bot" if accent.is_below else "top"
        add_element(add_element(element, "m:barPr"), "m:pos", {"m:val": position})
    elif accent.is_below or accent.mark not in tree.ACCENTS:
        element = add_element(parent, "m:groupChr")
        properties = add_element(element, "m:groupChrPr")
        add_element(properties, "m:chr", {"m:val": accent.mark})
        add_element(properties, "m:pos", {"m:val": "bot" if accent.is_below else "top"})
    else:
        element = add_element(parent, "m:acc")
        add_element(add_element(element, "m:accPr"), "m:chr", {"m:val": tree.ACCENTS[accent.mark]})
    _write(add_element(element, "m:e"), accent.base)


def _write_fence(parent: Any, fence: tree.Fence) -> None:
    element = add_element(parent, "m:d")
    properties = add_element(element, "m:dPr")
    add_element(properties, "m:begChr", {"m:val": fence.opening})
    add_element(properties, "m:endChr", {"m:val": fence.closing})
    _write(add_element(element, "m:e"), fence.body)


def _write_grid(parent: Any, grid: tree.Grid) -> None:
    matrix = add_element(parent, "m:m")
    columns = add_element(add_element(matrix, "m:mPr"), "m:mcs")
    for alignment in grid.alignments:
        properties = add_element(add_element(columns, "m:mc"), "m:mcPr")
        add_element(properties, "m:count", {"m:val": "1"})
        add_element(properties, "m:mcJc", {"m:val": alignment})
    for row in grid.rows:
        line = add_element(matrix, "m:mr")
        for cell in row:
            _write(add_element(line, "m:e"), cell)
