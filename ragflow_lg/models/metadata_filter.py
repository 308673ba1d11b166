"""Filtering documents by conditions on their metadata.

Source: RAGFlow's ``common/metadata_utils.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.services.knowledge import Metadata

FILTER_OPERATORS = (
    "=",
    "≠",
    ">",
    "<",
    "≥",
    "≤",
    "in",
    "not in",
    "contains",
    "not contains",
    "start with",
    "end with",
    "empty",
    "not empty",
)
"""The operators, as written by RAGFlow's editor."""

_OTHER_SPELLINGS = {"is": "=", "==": "=", "not is": "≠", "is not": "≠", "!=": "≠", "<>": "≠", ">=": "≥", "<=": "≤"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_MAX_LITERAL_CHARS = 200
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


class FilterCondition(NamedTuple):
    """One condition. ``value`` may be a list for ``in`` and ``not in``."""

    key: str
    operator: str
    value: JsonValue


def metadata_operator(text: str) -> str | None:
    """Return the operator with this name or synonym, or None.

    >>> metadata_operator("!="), metadata_operator("Starts With"), metadata_operator("like")
    ('≠', 'start with', None)
    """
    name = " ".join(text.lower().split()).replace("starts with", "start with").replace("ends with", "end with")
    name = _OTHER_SPELLINGS.get(name, name)
    return name if name in FILTER_OPERATORS else None


@worker_task("Filtering the documents")
def filter_documents(
    metadata: Metadata, conditions: Sequence[FilterCondition], *, any_of: bool = False
) -> Sequence[str]:
    """Return the ids of documents that satisfy all conditions or, with ``any_of``, at least one.

    A document without a key does not satisfy any condition on that key. If a key has several values, one match is
    enough.
    """
    matches: dict[str, None] | None = None
    for condition in conditions:
        test, expected = _TESTS[condition.operator], _prepare(condition)
        values = metadata.get(condition.key) or {}
        ids = {id_: None for stored, documents in values.items() if test(stored, expected) for id_ in documents}
        if matches is None:
            matches = ids
        elif any_of:
            matches |= ids
        else:
            matches = {id_: None for id_ in matches if id_ in ids}
    return tuple(matches or ())


def _prepare(condition: FilterCondition) -> Any:
    """Prepare a condition's value once for all comparisons. Text is converted to lower case, literals are not."""
    value = condition.value
    if condition.operator in _COMPARISONS:
        return value
    if condition.operator in ("in", "not in") and isinstance(value, list | tuple):
        return frozenset(_text(entry) for entry in cast("list[Any]", value))
    return _text(value)


def _compare_literals(test: Callable[[Any, Any], bool]) -> Callable[[str, Any], bool]:
    def holds(stored: str, expected: Any) -> bool:
        if isinstance(expected, str) and _DATE.fullmatch(expected.strip()):
            return bool(_DATE.fullmatch(stored.strip())) and test(stored.strip(), expected.strip())
        try:
            return test(*_read_alike(stored, expected))
        except TypeError:
            return False

    return holds


def _read_alike(stored: str, expected: Any) -> tuple[Any, Any]:
    """Convert both sides if both are literals; otherwise compare them as text in lower case."""
    other = _literal(expected) if isinstance(expected, str) else (expected,)
    one = _literal(stored) if other else None
    if one and other:
        return _lower(one[0]), _lower(other[0])
    return stored.lower(), _lower(expected)


def _literal(text: str) -> tuple[Any] | None:
    """Return the value of a literal in a tuple, or None for plain text."""
    text = text.strip()
    return _parse_literal(text) if len(text) <= _MAX_LITERAL_CHARS else None


@lru_cache(maxsize=65536)
def _parse_literal(text: str) -> tuple[Any] | None:
    if _WHOLE.fullmatch(text):
        return (int(text),)
    try:
        return (ast.literal_eval(text),)
    except _UNREADABLE:
        return None


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _text(value: JsonValue) -> str:
    return to_text(value).lower()


_COMPARISONS = ("=", "≠", ">", "<", "≥", "≤")
_TESTS: Mapping[str, Callable[[str, Any], bool]] = {
    "=": _compare_literals(lambda stored, expected: stored == expected),
    "≠": _compare_literals(lambda stored, expected: stored != expected),
    ">": _compare_literals(lambda stored, expected: stored > expected),
    "<": _compare_literals(lambda stored, expected: stored < expected),
    "≥": _compare_literals(lambda stored, expected: stored >= expected),
    "≤": _compare_literals(lambda stored, expected: stored <= expected),
    "in": lambda stored, expected: stored.lower() in expected,
    "not in": lambda stored, expected: stored.lower() not in expected,
    "contains": lambda stored, expected: expected in stored.lower(),
    "not contains": lambda stored, expected: expected not in stored.lower(),
    "start with": lambda stored, expected: stored.lower().startswith(expected),
    "end with": lambda stored, expected: stored.lower().endswith(expected),
    "empty": lambda stored, expected: not stored,
    "not empty": lambda stored, expected: bool(stored),
}
