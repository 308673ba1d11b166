"""Conditions on values: the operators of Switch, total on every pair of JSON values.

Source: RAGFlow's ``agent/component/switch.py``. Differences (``docs/fidelity.md``): a literal is read as a
number only where numbers are compared, booleans compare with ``true`` and ``false``, and what cannot be
compared is false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ragflow_lg.values import JsonValue, to_text

__all__ = ["OPERATORS", "compare", "operator_name", "parse_condition"]


def _folded(value: JsonValue) -> str:
    return to_text(value).lower()


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _is_equal(left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return _folded(left) == _folded(right)
    if isinstance(left, int | float):
        number = _number(right)
        return number is not None and left == number
    return left == right


def _contains(whole: JsonValue, part: JsonValue) -> bool:
    """Whether the text of ``whole`` has that of ``part`` in it; a list also has what one of its items is."""
    if isinstance(whole, list) and any(_folded(item) == _folded(part) for item in whole):  # pyright: ignore[reportUnknownVariableType]
        return True
    return _folded(part) in _folded(whole)


def _ordered(test: Callable[[float | str, float | str], bool]) -> Callable[[JsonValue, JsonValue], bool]:
    def holds(left: JsonValue, right: JsonValue) -> bool:
        a, b = _number(left), _number(right)
        if a is not None and b is not None:
            return test(a, b)
        return isinstance(left, str) and isinstance(right, str) and test(left, right)

    return holds


OPERATORS: Mapping[str, Callable[[JsonValue, JsonValue], bool]] = {
    "contains": lambda a, b: _contains(a, b),
    "not contains": lambda a, b: not _contains(a, b),
    "start with": lambda a, b: _folded(a).startswith(_folded(b)),
    "end with": lambda a, b: _folded(a).endswith(_folded(b)),
    "empty": lambda a, b: not a,
    "not empty": lambda a, b: bool(a),
    "=": _is_equal,
    "≠": lambda a, b: not _is_equal(a, b),
    ">": _ordered(lambda a, b: a > b),  # pyright: ignore[reportOperatorIssue] - both of one type
    "<": _ordered(lambda a, b: a < b),  # pyright: ignore[reportOperatorIssue]
    "≥": _ordered(lambda a, b: a >= b),  # pyright: ignore[reportOperatorIssue]
    "≤": _ordered(lambda a, b: a <= b),  # pyright: ignore[reportOperatorIssue]
}
"""Operators by RAGFlow's name."""

_SYNONYMS = {
    "==": "=",
    "is": "=",
    "!=": "≠",
    "<>": "≠",
    "is not": "≠",
    ">=": "≥",
    "<=": "≤",
    "starts with": "start with",
    "ends with": "end with",
}

_CONDITION = re.compile(r"\s*(\{[^{}]+\}|[\w:.@-]+)\s*(==|!=|>=|<=|>|<|contains)\s*(.+?)\s*", re.DOTALL)


def operator_name(name: str) -> str | None:
    """Give RAGFlow's name of an operator or of a synonym, or None.

    >>> operator_name("=="), operator_name("about")
    ('=', None)
    """
    name = _SYNONYMS.get(name.strip().lower(), name.strip().lower())
    return name if name in OPERATORS else None


def compare(left: JsonValue, operator: str, right: JsonValue) -> bool:
    """Apply an operator; never raises for a known one."""
    return OPERATORS[operator](left, right)


def parse_condition(text: str) -> tuple[str, list[tuple[str, str, str]]] | None:
    """Read ``{a@x} > 5 and {b@y} == "no"`` as a logical operator and ``(reference, operator, literal)`` items.

    ``and`` and ``or`` do not mix, there are no parentheses, and nothing is evaluated as code. None if the text is
    something else.
    """
    logical = "or" if re.search(r"\s(or|\|\|)\s", text) else "and"
    items: list[tuple[str, str, str]] = []
    for part in re.split(r"\s(?:and|&&)\s" if logical == "and" else r"\s(?:or|\|\|)\s", text):
        match = _CONDITION.fullmatch(part)
        if match is None or re.search(r"\s(and|&&)\s", part):
            return None
        literal = match[3]
        is_quoted = len(literal) > 1 and literal[0] == literal[-1] and literal[0] in "\"'"
        items.append((match[1], operator_name(match[2]) or "", _literal(literal, is_quoted)))
    return logical, items


def _literal(text: str, is_quoted: bool) -> str:
    if is_quoted:
        return text[1:-1]
    return "" if text.lower() in ("null", "none") else text
