"""Formulas as MathML, which browsers display."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

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
    Space,
)

_TAGS = {"symbol": "mi", "number": "mn", "text": "mtext", "name": "mi"}


def mathml_element(formula: Formula, *, is_block: bool) -> Element:
    """Return the element ``math`` with a formula."""
    root = Element("math", {"display": "block" if is_block else "inline"})
    _write(SubElement(root, "mrow"), formula)
    return root


def _write(parent: Element, formula: Formula) -> None:
    if isinstance(formula, Row):
        for part in formula.parts:
            _write(parent, part)
    elif isinstance(formula, Scripts):
        _write_scripts(parent, formula)
    elif isinstance(formula, Grid):
        _write_grid(parent, formula)
    elif isinstance(formula, Fence):
        _write_fence(parent, formula)
    else:
        _write_element(parent, formula)


def _write_element(parent: Element, formula: Atom | Fraction | Root | Accent | Space) -> None:
    """Write a part that is one element."""
    if isinstance(formula, Atom):
        is_operator = formula.kind == "symbol" and not formula.text.isalpha()
        SubElement(parent, "mo" if is_operator else _TAGS[formula.kind]).text = formula.text
    elif isinstance(formula, Fraction):
        attributes = {} if formula.has_line else {"linethickness": "0"}
        _write_rows(SubElement(parent, "mfrac", attributes), formula.top, formula.bottom)
    elif isinstance(formula, Root):
        if formula.index is None:
            _write(SubElement(parent, "msqrt"), formula.body)
        else:
            _write_rows(SubElement(parent, "mroot"), formula.body, formula.index)
    elif isinstance(formula, Accent):
        element = SubElement(parent, "munder" if formula.is_below else "mover")
        _write_rows(element, formula.base, Atom("symbol", formula.mark))
    else:
        SubElement(parent, "mspace", {"width": f"{formula.width:.3f}em"})


def _write_fence(parent: Element, fence: Fence) -> None:
    row = SubElement(parent, "mrow")
    if fence.opening:
        SubElement(row, "mo", {"fence": "true", "stretchy": "true"}).text = fence.opening
    _write(row, fence.body)
    if fence.closing:
        SubElement(row, "mo", {"fence": "true", "stretchy": "true"}).text = fence.closing


def _write_rows(element: Element, *parts: Formula) -> None:
    for part in parts:
        _write(SubElement(element, "mrow"), part)


def _write_scripts(parent: Element, scripts: Scripts) -> None:
    lower, upper = scripts.lower, scripts.upper
    names = ("munder", "mover", "munderover") if scripts.is_limits else ("msub", "msup", "msubsup")
    if lower is not None and upper is not None:
        _write_rows(SubElement(parent, names[2]), scripts.base, lower, upper)
    elif lower is not None:
        _write_rows(SubElement(parent, names[0]), scripts.base, lower)
    elif upper is not None:
        _write_rows(SubElement(parent, names[1]), scripts.base, upper)


def _write_grid(parent: Element, grid: Grid) -> None:
    table = SubElement(parent, "mtable", {"columnalign": " ".join(grid.alignments)})
    for row in grid.rows:
        line = SubElement(table, "mtr")
        for cell in row:
            _write(SubElement(line, "mtd"), cell)
