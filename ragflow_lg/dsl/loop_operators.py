"""Conditions that end a Loop. Their operators depend on the type of the value and are case-sensitive.

When a Loop tests them is decided in `ragflow_lg.components.loop`.

Source: RAGFlow's ``agent/component/loopitem.py``. Differences (``docs/fidelity.md``): the literal is converted to the
value's type, every operator works on every type for which it is meaningful, and no condition raises an exception.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.values import JsonValue, to_number, to_text
from ragflow_lg.dsl.conditions import SYNONYMS

_ORDER: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, "<": operator.lt, "≥": operator.ge, "≤": operator.le}
NAMES = ("contains", "not contains", "start with", "end with", "empty", "not empty", "=", "≠", *_ORDER)
"""The operator names."""

OPERATORS = frozenset({*NAMES, *SYNONYMS})
"""The names that a condition may use, including synonyms."""


def holds(left: JsonValue, name: str, right: JsonValue) -> bool:
    """Return whether ``left name right`` holds. For null, only ``empty`` holds.

    >>> holds(3, "≥", "2"), holds("aB", "contains", "b"), holds(True, "is", "true")
    (True, False, True)
    """
    name = SYNONYMS.get(name, name)
    if left is None:
        return name == "empty"
    if name in ("empty", "not empty"):
        is_empty = left in ("", [], {}) if not isinstance(left, bool | int | float) else False
        return is_empty == (name == "empty")
    if name in ("not contains", "≠"):
        return not holds(left, "contains" if name == "not contains" else "=", right)
    if name in _ORDER:
        return _ordered(_ORDER[name], left, right)
    if name == "=":
        return left == _like(left, right) if not isinstance(left, str) else left == to_text(right)
    if name == "contains" and isinstance(left, list | dict):
        entries = cast("list[Any]", left)
        text = to_text(right)
        return any(right == entry for entry in entries) or any(text == to_text(entry) for entry in entries)
    text, part = to_text(left), to_text(right)
    if name == "start with":
        return text.startswith(part)
    return text.endswith(part) if name == "end with" else part in text


def _ordered(test: Callable[[Any, Any], bool], left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        a, b = to_number(left), to_number(right)
        return test(a, b) if a is not None and b is not None else test(left, right)
    a, b = to_number(left), to_number(right)
    return a is not None and b is not None and test(a, b)


def _like(left: JsonValue, right: JsonValue) -> JsonValue:
    """Convert a literal to the type of the value that it is compared with."""
    if not isinstance(right, str):
        return right if isinstance(right, bool) == isinstance(left, bool) else None
    if isinstance(left, bool):
        return {"true": True, "false": False}.get(right.strip().lower())
    if isinstance(left, int | float):
        return to_number(right)
    try:
        return parse_foreign_json(right)
    except ForeignJsonError:
        return None
