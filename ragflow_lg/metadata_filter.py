"""Which documents a search looks into: conditions on their metadata.

Source: RAGFlow's ``common/metadata_utils.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from ragflow_lg.knowledge import Metadata
from ragflow_lg.values import JsonValue, to_text

__all__ = ["FILTER_OPERATORS", "Condition", "matching_documents", "metadata_operator"]

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
_LONGEST_LITERAL = 200
_UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


class Condition(NamedTuple):
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


def matching_documents(metadata: Metadata, conditions: Iterable[Condition], *, any_of: bool = False) -> tuple[str, ...]:
    """Give the ids of the documents for which all conditions hold, or with ``any_of`` one of them.

    A document that lacks a key fulfils no condition on it. Of several values of one key one is enough.
    """
    found: dict[str, None] | None = None
    for condition in conditions:
        test = _TESTS[condition.operator]
        values = metadata.get(condition.key) or {}
        ids = {id_: None for stored, documents in values.items() if test(stored, condition.value) for id_ in documents}
        if found is None:
            found = ids
        elif any_of:
            found |= ids
        else:
            found = {id_: None for id_ in found if id_ in ids}
    return tuple(found or ())


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[str, JsonValue], bool]:
    def holds(stored: str, wanted: JsonValue) -> bool:
        if isinstance(wanted, str) and _DATE.fullmatch(wanted.strip()):
            return bool(_DATE.fullmatch(stored.strip())) and test(stored.strip(), wanted.strip())
        try:
            return test(*_alike(stored, wanted))
        except TypeError:
            return False

    return holds


def _alike(stored: str, wanted: JsonValue) -> tuple[Any, Any]:
    """Read both sides as literals if both are some; texts are compared in lower case."""
    try:
        one, other = _literal(stored), _literal(wanted)
    except _UNREADABLE:
        one, other = stored, wanted
    return _lower(one), _lower(other)


def _literal(value: JsonValue) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) > _LONGEST_LITERAL:
        raise ValueError
    return ast.literal_eval(text)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _text(value: JsonValue) -> str:
    return to_text(value).lower()


def _is_in(stored: str, wanted: JsonValue) -> bool:
    if isinstance(wanted, list | tuple):
        return stored.lower() in {_text(entry) for entry in cast("list[Any]", wanted)}
    return stored.lower() in _text(wanted)


_TESTS: Mapping[str, Callable[[str, JsonValue], bool]] = {
    "=": _compared(lambda stored, wanted: stored == wanted),
    "≠": _compared(lambda stored, wanted: stored != wanted),
    ">": _compared(lambda stored, wanted: stored > wanted),
    "<": _compared(lambda stored, wanted: stored < wanted),
    "≥": _compared(lambda stored, wanted: stored >= wanted),
    "≤": _compared(lambda stored, wanted: stored <= wanted),
    "in": _is_in,
    "not in": lambda stored, wanted: not _is_in(stored, wanted),
    "contains": lambda stored, wanted: _text(wanted) in stored.lower(),
    "not contains": lambda stored, wanted: _text(wanted) not in stored.lower(),
    "start with": lambda stored, wanted: stored.lower().startswith(_text(wanted)),
    "end with": lambda stored, wanted: stored.lower().endswith(_text(wanted)),
    "empty": lambda stored, wanted: not stored,
    "not empty": lambda stored, wanted: bool(stored),
}
