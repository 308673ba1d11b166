"""Switch and filter operators, defined for every pair of JSON values.

Source: RAGFlow's ``agent/component/switch.py``. Differences (``docs/fidelity.md``): a literal is only read as a number
when numbers are compared, booleans are compared with ``true`` and ``false``, and comparing incomparable values returns
false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from ragflow_lg.base.values import JsonValue, to_number, to_text


def _folded(value: JsonValue) -> str:
    return to_text(value).lower()


def _is_equal(left: JsonValue, right: JsonValue) -> bool:
    if right is None:
        return left is None or left == ""
    if isinstance(left, bool) or isinstance(right, bool):
        return _folded(left) == _folded(right)
    if isinstance(left, int | float):
        return left == to_number(right)
    return left == right


def _contains(whole: JsonValue, part: JsonValue) -> bool:
    """Return whether ``whole`` contains ``part`` as text or, for a list, as an item."""
    items = cast("list[Any]", whole) if isinstance(whole, list) else []
    folded = _folded(part)
    return any(_folded(item) == folded for item in items) or folded in _folded(whole)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[JsonValue, JsonValue], bool]:
    def holds(left: JsonValue, right: JsonValue) -> bool:
        a, b = to_number(left), to_number(right)
        if a is not None and b is not None:
            return test(a, b)
        return isinstance(left, str) and isinstance(right, str) and test(left, right)

    return holds


OPERATORS: Mapping[str, Callable[[JsonValue, JsonValue], bool]] = {
    "contains": _contains,
    "not contains": lambda a, b: not _contains(a, b),
    "start with": lambda a, b: _folded(a).startswith(_folded(b)),
    "end with": lambda a, b: _folded(a).endswith(_folded(b)),
    "empty": lambda a, b: not a,
    "not empty": lambda a, b: bool(a),
    "=": _is_equal,
    "≠": lambda a, b: not _is_equal(a, b),
    ">": _ordered(operator.gt),
    "<": _ordered(operator.lt),
    "≥": _ordered(operator.ge),
    "≤": _ordered(operator.le),
}
"""Switch's operators by RAGFlow's name. Each compares a value with a literal and never raises an exception."""


FILTERS: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "≠": operator.ne,
    "contains": operator.contains,
    "not contains": lambda text, literal: literal not in text,
    "start with": str.startswith,
    "end with": str.endswith,
    "empty": lambda text, literal: not text,
    "not empty": lambda text, literal: bool(text),
}
"""Filter operators for lists and maps, by RAGFlow's name. They compare text and are case-sensitive."""


class TextRule(NamedTuple):
    """A filter operator with the text that values are compared with."""

    operator: str
    expected: str

    def matches(self, value: JsonValue) -> bool:
        """Return whether a value matches. For a boolean, ``true`` means the same as ``True``."""
        is_truth = isinstance(value, bool) and self.expected.lower() in ("true", "false")
        expected = self.expected.capitalize() if is_truth else self.expected
        return FILTERS[self.operator](filter_text(value), expected)


SYNONYMS = {
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
"""RAGFlow's names of operators by others for them."""


def operator_name(name: str) -> str:
    """Return RAGFlow's name for a Switch operator, which may be given by a synonym.

    Raises:
        ValueError: if there is no such operator.

    >>> operator_name("==")
    '='
    """
    return _name(name, OPERATORS)


def filter_name(name: str | None) -> str:
    """Return RAGFlow's name for a filter operator; None and ``""`` mean ``=``.

    Raises:
        ValueError: if there is no such operator.
    """
    return _name(name or "=", FILTERS)


def _name(name: object, table: Mapping[str, object]) -> str:
    folded = name.strip().lower() if isinstance(name, str) else ""
    known = SYNONYMS.get(folded, folded)
    if known not in table:
        raise ValueError(f"there is no operator {name!r}; use one of {', '.join(table)}")
    return known


def filter_text(value: JsonValue) -> str:
    """Return the text that filters compare. Booleans are written as in Python, because stored canvases do so."""
    return str(value) if isinstance(value, bool) else to_text(value)


_ITEM = re.compile(
    r"""\s*(?P<reference>\{[^{}]+\}|[\w:.@-]+)
    \s*(?P<operator>==|!=|>=|<=|>|<|\bcontains\b)
    \s*(?P<literal>"[^"]*"|'[^']*'|[^\s"'<>=!&|]+)
    (?:\s+(?P<joiner>and|or|&&|\|\|)\s|\s*\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
_JOINERS = {"and": "and", "&&": "and", "or": "or", "||": "or"}


def parse_condition(text: str) -> tuple[str, list[tuple[str, str, JsonValue]]] | None:
    """Parse ``{a@x} > 5 and {b@y} == "no"`` into a logical operator and ``(reference, operator, literal)`` items.

    ``and`` and ``or`` cannot be mixed, parentheses are not supported, and nothing is evaluated as code. Return None for
    any other text.

    >>> parse_condition("{a@x} >= 5")
    ('and', [('{a@x}', '≥', '5')])
    """
    items: list[tuple[str, str, JsonValue]] = []
    joiners: set[str] = set()
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            return None
        items.append((match["reference"], operator_name(match["operator"]), _literal(match["literal"])))
        position = match.end()
        if match["joiner"]:
            joiners.add(_JOINERS[match["joiner"].lower()])
            if position == len(text):
                return None
    if not items or len(joiners) > 1:
        return None
    return joiners.pop() if joiners else "and", items


def _literal(text: str) -> JsonValue:
    """Remove quotes. Numbers and booleans remain text, because the operators parse text."""
    if text[0] in "\"'":
        return text[1:-1]
    return None if text.lower() in ("null", "none") else text
