"""Conversion of LaTeX to the tree of a formula, by way of the MathML of latex2mathml."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any, cast
from xml.etree.ElementTree import Element

from ragflow_lg.adapters.reports import report_tree as tree

MAX_CHARS = 2_000
"""Maximum length of a formula. The library's time grows faster than the length."""

MAX_DEPTH = 24

_ACCENTS = frozenset("^~ˇ˘´`˙¨→¯‾―_⏞⏟")
_BRACKETS = frozenset("()[]{}|‖⟨⟩⌈⌉⌊⌋")
_LENGTH = re.compile(r"(-?[0-9.]+)em$")
_PLAIN_PARTS = frozenset(("math", "mrow", "mstyle", "mpadded", "mtd", "semantics"))
_ARITY = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}


def read_latex(latex: str) -> tree.Formula | None:
    """Return the tree of a formula, or None if a part of it cannot be translated."""
    if len(latex) > MAX_CHARS:
        return None
    from latex2mathml import converter

    convert = cast("Any", converter).convert_to_element
    try:
        element = cast("Element", convert(latex))
    except Exception:  # noqa: BLE001 - the library raises anything for formulas that it does not know
        return None
    try:
        return _read(element, 0)
    except _UnknownPartError:
        return None


class _UnknownPartError(ValueError):
    """A part that has no counterpart in the tree."""


def _read(element: Element, depth: int) -> tree.Formula:
    if depth > MAX_DEPTH:
        raise _UnknownPartError("depth")
    tag, children = element.tag, list(element)
    if tag in ("mi", "mn", "mo", "mtext"):
        return _atom(tag, element)
    if tag == "mspace":
        length = _LENGTH.match(element.get("width") or "")
        return tree.Space(float(length[1]) if length else 0.0)
    if tag in _PLAIN_PARTS:
        return _row(children, depth)
    if tag == "msqrt":
        return tree.Root(_row(children, depth))
    if tag == "mtable":
        return _grid(children, depth)
    if len(children) != _ARITY.get(tag):
        raise _UnknownPartError(tag)
    first, second, *rest = [_read(child, depth + 1) for child in children]
    if tag == "mfrac":
        return tree.Fraction(first, second, element.get("linethickness") not in ("0", "0pt", "0em"))
    if tag == "mroot":
        return tree.Root(first, second)
    return _with_scripts(tag, first, second, rest)


def _with_scripts(tag: str, base: tree.Formula, second: tree.Formula, rest: Sequence[tree.Formula]) -> tree.Formula:
    is_limits = tag.startswith(("mu", "mo"))
    if tag in ("munder", "mover") and isinstance(second, tree.Atom) and second.text in _ACCENTS:
        return tree.Accent(base, second.text, tag == "munder")
    if rest:
        return tree.Scripts(base, second, rest[0], is_limits)
    is_lower = tag in ("msub", "munder")
    return tree.Scripts(base, second if is_lower else None, None if is_lower else second, is_limits)


def _atom(tag: str, element: Element) -> tree.Formula:
    text = html.unescape(element.text or "")
    if tag == "mtext":
        return tree.Atom("text", text.replace("\u00a0", " "))
    if "\\" in text and len(text) > 1:
        raise _UnknownPartError(text)
    if not text:
        return tree.Row(())
    if tag == "mn":
        return tree.Atom("number", text)
    return tree.Atom("name" if len(text) > 1 and text.isalpha() and text.isascii() else "symbol", text)


def _row(children: Sequence[Element], depth: int) -> tree.Formula:
    """Return a row. Brackets that LaTeX stretches become a fence."""
    if children and _is_fence(children[0]):
        has_closing = len(children) > 1 and _is_fence(children[-1])
        body = children[1:-1] if has_closing else children[1:]
        return tree.Fence(_sign(children[0]), _parts(body, depth), _sign(children[-1]) if has_closing else "")
    return _parts(children, depth)


def _parts(children: Sequence[Element], depth: int) -> tree.Formula:
    parts: list[tree.Formula] = []
    at = 0
    while at < len(children):
        if _encloses(children[at : at + 3]):
            opening, body, closing = children[at : at + 3]
            parts.append(tree.Fence(_sign(opening), _read(body, depth + 1), _sign(closing)))
            at += 3
        else:
            parts.append(_read(children[at], depth + 1))
            at += 1
    return parts[0] if len(parts) == 1 else tree.Row(tuple(parts))


def _encloses(children: Sequence[Element]) -> bool:
    """Return whether these are a matrix or a binomial coefficient in its brackets."""
    return (
        len(children) == 3
        and _is_bracket(children[0])
        and children[1].tag in ("mtable", "mfrac")
        and _is_bracket(children[2])
        and (children[1].tag == "mtable" or children[0].get("minsize") is not None)
    )


def _sign(element: Element) -> str:
    """Return the sign of a bracket, or ``""`` for the dot, which stands for none."""
    sign = html.unescape(element.text or "")
    if len(sign) > 1:
        raise _UnknownPartError(sign)
    return "" if sign == "." else sign


def _is_bracket(element: Element) -> bool:
    return element.tag == "mo" and html.unescape(element.text or "") in _BRACKETS


def _is_fence(element: Element) -> bool:
    return element.tag == "mo" and element.get("fence") == "true"


def _grid(rows: Sequence[Element], depth: int) -> tree.Formula:
    cells = [list(row) for row in rows]
    width = max((len(row) for row in cells), default=0)
    if not width or any(cell.tag != "mtd" for row in cells for cell in row):
        raise _UnknownPartError("mtable")
    empty: tree.Formula = tree.Row(())
    read = [[_read(cell, depth + 1) for cell in row] + [empty] * (width - len(row)) for row in cells]
    first: list[Element | None] = [*cells[0], *[None] * width][:width]
    alignments: list[tree.ColumnAlignment] = [_alignment(cell) for cell in first]
    return tree.Grid(tuple(map(tuple, read)), tuple(alignments))


def _alignment(cell: Element | None) -> tree.ColumnAlignment:
    value = "" if cell is None else cell.get("columnalign") or ""
    return "left" if value == "left" else "right" if value == "right" else "center"
