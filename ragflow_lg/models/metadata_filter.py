"""Which documents a search looks into: conditions on their metadata.

Source: RAGFlow's ``common/metadata_utils.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.knowledge import Metadata

__all__ = ["FILTER_OPERATORS", "FilterCondition", "filter_documents", "metadata_operator"]

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
"""The operators, as RAGFlow's editor writes them."""

_OTHER_SPELLINGS = {"is": "=", "==": "=", "not is": "≠", "is not": "≠", "!=": "≠", "<>": "≠", ">=": "≥", "<=": "≤"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_LONGEST_LITERAL = 200
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


class FilterCondition(NamedTuple):
    """One condition. ``value`` may be a list for ``in`` and ``not in``."""

    key: str
    operator: str
    value: JsonValue


def metadata_operator(text: str) -> str | None:
    """Give the operator that a text names, None if there is none.

    >>> metadata_operator("!="), metadata_operator("Starts With"), metadata_operator("like")
    ('≠', 'start with', None)
    """
    name = " ".join(text.lower().split()).replace("starts with", "start with").replace("ends with", "end with")
    name = _OTHER_SPELLINGS.get(name, name)
    return name if name in FILTER_OPERATORS else None


def filter_documents(
    metadata: Metadata, conditions: Iterable[FilterCondition], *, any_of: bool = False
) -> tuple[str, ...]:
    """Give the ids of the documents for which all conditions hold, or with ``any_of`` one of them.

    A document that lacks a key fulfils no condition on it. Of several values of one key one is enough. CPU-bound; call
    it in a thread.
    """
    found: dict[str, None] | None = None
    for condition in conditions:
        test, wanted = _TESTS[condition.operator], _prepared(condition)
        values = metadata.get(condition.key) or {}
        ids = {id_: None for stored, documents in values.items() if test(stored, wanted) for id_ in documents}
        if found is None:
            found = ids
        elif any_of:
            found |= ids
        else:
            found = {id_: None for id_ in found if id_ in ids}
    return tuple(found or ())


def _prepared(condition: FilterCondition) -> Any:
    """Do once what would be the same for every value: texts in lower case where nothing is compared as a literal."""
    value = condition.value
    if condition.operator in _COMPARISONS:
        return value
    if condition.operator in ("in", "not in") and isinstance(value, list | tuple):
        return frozenset(_text(entry) for entry in cast("list[Any]", value))
    return _text(value)


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[str, Any], bool]:
    def holds(stored: str, wanted: Any) -> bool:
        if isinstance(wanted, str) and _DATE.fullmatch(wanted.strip()):
            return bool(_DATE.fullmatch(stored.strip())) and test(stored.strip(), wanted.strip())
        try:
            return test(*_alike(stored, wanted))
        except TypeError:
            return False

    return holds


def _alike(stored: str, wanted: Any) -> tuple[Any, Any]:
    """Read both sides as literals if both are some; texts are compared in lower case."""
    other = _literal(wanted) if isinstance(wanted, str) else (wanted,)
    one = _literal(stored) if other else None
    if one and other:
        return _lower(one[0]), _lower(other[0])
    return stored.lower(), _lower(wanted)


@lru_cache(maxsize=65536)
def _literal(text: str) -> tuple[Any] | None:
    """Give the value that a text is the literal of, in a tuple; None for plain text."""
    text = text.strip()
    if len(text) > _LONGEST_LITERAL:
        return None
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
    "=": _compared(lambda stored, wanted: stored == wanted),
    "≠": _compared(lambda stored, wanted: stored != wanted),
    ">": _compared(lambda stored, wanted: stored > wanted),
    "<": _compared(lambda stored, wanted: stored < wanted),
    "≥": _compared(lambda stored, wanted: stored >= wanted),
    "≤": _compared(lambda stored, wanted: stored <= wanted),
    "in": lambda stored, wanted: stored.lower() in wanted,
    "not in": lambda stored, wanted: stored.lower() not in wanted,
    "contains": lambda stored, wanted: wanted in stored.lower(),
    "not contains": lambda stored, wanted: wanted not in stored.lower(),
    "start with": lambda stored, wanted: stored.lower().startswith(wanted),
    "end with": lambda stored, wanted: stored.lower().endswith(wanted),
    "empty": lambda stored, wanted: not stored,
    "not empty": lambda stored, wanted: bool(stored),
}
