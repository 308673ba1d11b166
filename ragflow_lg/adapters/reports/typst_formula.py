"""Formulas as calls of Typst's functions."""

from __future__ import annotations

from collections.abc import Mapping

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
from ragflow_lg.adapters.reports.typst_literals import literal

_LINES: Mapping[tuple[str, bool], str] = {
    ("―", False): "overline",
    ("‾", False): "overline",
    ("¯", False): "overline",
    ("_", True): "underline",
    ("―", True): "underline",
    ("⏞", False): "overbrace",
    ("⏟", True): "underbrace",
}
_ACCENTS: Mapping[str, str] = {
    "^": "\u0302",
    "~": "\u0303",
    "ˇ": "\u030c",
    "˘": "\u0306",
    "´": "\u0301",
    "`": "\u0300",
    "˙": "\u0307",
    "¨": "\u0308",
    "→": "\u20d7",
}


def typst_equation(formula: Formula, *, is_block: bool, is_large: bool = False) -> str:
    """Return the call that typesets a formula; with ``is_large`` as large inside a line as in a block."""
    body = _write(formula)
    if is_large and not is_block:
        body = f"math.display({body})"
    return f"math.equation(block: {'true' if is_block else 'false'}, {body})"


def _write(formula: Formula) -> str:
    if isinstance(formula, Atom):
        return _atom(formula)
    if isinstance(formula, Row):
        return "{" + "; ".join(map(_write, formula.parts)) + "}" if formula.parts else "[]"
    if isinstance(formula, Fraction):
        top, bottom = _write(formula.top), _write(formula.bottom)
        return f"math.frac({top}, {bottom})" if formula.has_line else f"math.mat(delim: none, ({top},), ({bottom},))"
    if isinstance(formula, Root):
        if formula.index is None:
            return f"math.sqrt({_write(formula.body)})"
        return f"math.root({_write(formula.index)}, {_write(formula.body)})"
    if isinstance(formula, Scripts):
        return _scripts(formula)
    if isinstance(formula, Accent):
        return _accent(formula)
    if isinstance(formula, Fence):
        opening = f"[#symbol({literal(formula.opening)})]; " if formula.opening else ""
        closing = f"; [#symbol({literal(formula.closing)})]" if formula.closing else ""
        return f"math.lr({{{opening}{_write(formula.body)}{closing}}})"
    if isinstance(formula, Grid):
        return _grid(formula)
    return f"h({formula.width:.3f}em)"


def _atom(atom: Atom) -> str:
    if atom.kind == "name":
        return f"math.op({literal(atom.text)})"
    if atom.kind == "symbol" and len(atom.text) == 1:
        return f"[#symbol({literal(atom.text)})]"  # content: symbols next to each other would become one text
    return f"text({literal(atom.text)})"


def _scripts(scripts: Scripts) -> str:
    base = _write(scripts.base)
    if scripts.is_limits:
        base = f"math.limits({base})"
    lower = "" if scripts.lower is None else f", b: {_write(scripts.lower)}"
    upper = "" if scripts.upper is None else f", t: {_write(scripts.upper)}"
    return f"math.attach({base}{lower}{upper})"


def _accent(accent: Accent) -> str:
    base = _write(accent.base)
    if (line := _LINES.get((accent.mark, accent.is_below))) is not None:
        return f"math.{line}({base})"
    if not accent.is_below and accent.mark in _ACCENTS:
        return f"math.accent({base}, {literal(_ACCENTS[accent.mark])})"
    side = "b" if accent.is_below else "t"
    return f"math.attach(math.limits({base}), {side}: symbol({literal(accent.mark)}))"


def _grid(grid: Grid) -> str:
    """Return a matrix without brackets. One whose columns are aligned differently needs a general grid."""
    if len(set(grid.alignments)) == 1:
        rows = ", ".join("(" + "".join(f"{_write(cell)}, " for cell in row) + ")" for row in grid.rows)
        return f"math.mat(delim: none, align: {grid.alignments[0]}, {rows})"
    cells = ", ".join(f"math.equation({_write(cell)})" for row in grid.rows for cell in row)
    alignments = ", ".join(grid.alignments)
    gutters = "column-gutter: 0.25em, row-gutter: 0.7em"
    return f"box(baseline: 50%, grid(columns: {len(grid.alignments)}, align: ({alignments}), {gutters}, {cells}))"
