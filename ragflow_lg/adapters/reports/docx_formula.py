"""Formulas as Office Math (OMML), built as elements."""

from __future__ import annotations

from typing import Any

from ragflow_lg.adapters.reports.docx_elements import add_element
from ragflow_lg.adapters.reports.formula_tree import (
    Accent,
    Atom,
    Fence,
    Formula,
    Fraction,
    Grid,
    Root,
    Row,
    Scripts,
)

_LARGE = frozenset("∑∏∐⋂⋃⨁⨂")
"""Signs whose limits are above and below them."""

_OVERLINES = frozenset("―‾¯_")
_ACCENTS = {"^": "\u0302", "~": "\u0303", "ˇ": "\u030c", "˘": "\u0306", "´": "\u0301", "`": "\u0300"} | {
    "˙": "\u0307",
    "¨": "\u0308",
    "→": "\u20d7",
}


def add_formula(paragraph: Any, formula: Formula, *, is_block: bool) -> None:
    """Add a formula to an element ``w:p``."""
    parent = add_element(paragraph, "m:oMathPara") if is_block else paragraph
    _write(add_element(parent, "m:oMath"), formula)


def _write(parent: Any, formula: Formula) -> None:
    if isinstance(formula, Atom):
        _write_atom(parent, formula)
    elif isinstance(formula, Row):
        for part in formula.parts or (Atom("text", "\u200b"),):  # programs expect something before an equals sign
            _write(parent, part)
    elif isinstance(formula, Fraction):
        fraction = add_element(parent, "m:f")
        if not formula.has_line:
            add_element(add_element(fraction, "m:fPr"), "m:type", {"m:val": "noBar"})
        _write(add_element(fraction, "m:num"), formula.top)
        _write(add_element(fraction, "m:den"), formula.bottom)
    elif isinstance(formula, Root):
        _write_root(parent, formula)
    elif isinstance(formula, Scripts):
        _write_scripts(parent, formula)
    elif isinstance(formula, Accent):
        _write_accent(parent, formula)
    elif isinstance(formula, Fence):
        _write_fence(parent, formula)
    elif isinstance(formula, Grid):
        _write_grid(parent, formula)
    elif formula.width > 0:
        _write_atom(parent, Atom("text", "\u2003" if formula.width >= 1 else "\u2009"))


def _write_atom(parent: Any, atom: Atom) -> None:
    run = add_element(parent, "m:r")
    if atom.kind in ("text", "name"):
        add_element(add_element(run, "m:rPr"), "m:sty", {"m:val": "p"})
    add_element(run, "m:t", {"xml:space": "preserve"}).text = atom.text


def _write_root(parent: Any, root: Root) -> None:
    radical = add_element(parent, "m:rad")
    if root.index is None:
        add_element(add_element(radical, "m:radPr"), "m:degHide", {"m:val": "1"})
    degree = add_element(radical, "m:deg")
    if root.index is not None:
        _write(degree, root.index)
    _write(add_element(radical, "m:e"), root.body)


def _write_scripts(parent: Any, scripts: Scripts) -> None:
    lower, upper, base = scripts.lower, scripts.upper, scripts.base
    if scripts.is_limits or (isinstance(base, Atom) and base.text in _LARGE):
        if lower is not None and upper is not None:
            base = Scripts(base, lower, None, True)
        limit = add_element(parent, "m:limLow" if upper is None else "m:limUpp")
        _write(add_element(limit, "m:e"), base)
        _write(add_element(limit, "m:lim"), upper or lower or Row(()))
        return
    name = "m:sSubSup" if lower is not None and upper is not None else "m:sSub" if lower is not None else "m:sSup"
    element = add_element(parent, name)
    _write(add_element(element, "m:e"), base)
    for tag, part in (("m:sub", lower), ("m:sup", upper)):
        if part is not None:
            _write(add_element(element, tag), part)


def _write_accent(parent: Any, accent: Accent) -> None:
    if accent.mark in _OVERLINES:
        element = add_element(parent, "m:bar")
        position = "bot" if accent.is_below else "top"
        add_element(add_element(element, "m:barPr"), "m:pos", {"m:val": position})
    elif accent.is_below or accent.mark not in _ACCENTS:
        element = add_element(parent, "m:groupChr")
        properties = add_element(element, "m:groupChrPr")
        add_element(properties, "m:chr", {"m:val": accent.mark})
        add_element(properties, "m:pos", {"m:val": "bot" if accent.is_below else "top"})
    else:
        element = add_element(parent, "m:acc")
        add_element(add_element(element, "m:accPr"), "m:chr", {"m:val": _ACCENTS[accent.mark]})
    _write(add_element(element, "m:e"), accent.base)


def _write_fence(parent: Any, fence: Fence) -> None:
    element = add_element(parent, "m:d")
    properties = add_element(element, "m:dPr")
    add_element(properties, "m:begChr", {"m:val": fence.opening})
    add_element(properties, "m:endChr", {"m:val": fence.closing})
    _write(add_element(element, "m:e"), fence.body)


def _write_grid(parent: Any, grid: Grid) -> None:
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
