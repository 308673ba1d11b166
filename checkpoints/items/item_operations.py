"""Filters and namespace conditions of LangGraph's store operations, evaluated in this process."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langgraph.store.base import ListNamespacesOp, MatchCondition

from ragflow_lg.base.errors import CheckpointError

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def is_match(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets all conditions of a filter. Values of different types are only unequal.

    >>> is_match({"size": 3, "kind": "raw"}, {"kind": "raw", "size": {"$gt": 2}})
    True

    Raises:
        CheckpointError: if a condition has an unknown operator.
    """
    return all(_meets(value.get(name), condition) for name, condition in (conditions or {}).items())


def _meets(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict) or not any(str(key).startswith("$") for key in cast("Any", condition)):
        return bool(value == condition)
    for name, wanted in cast("dict[str, Any]", condition).items():
        if name not in _COMPARISONS:
            raise CheckpointError(f"Unknown operator {name!r:.40} in a filter: use {', '.join(_COMPARISONS)}.")
        try:
            if not _COMPARISONS[name](value, wanted):
                return False
        except TypeError:
            return False
    return True


def select_namespaces(namespaces: Sequence[tuple[str, ...]], operation: ListNamespacesOp) -> list[tuple[str, ...]]:
    """Return the sorted namespaces that an operation asks for, shortened to its depth and without duplicates."""
    conditions = operation.match_conditions or ()
    found = [namespace for namespace in namespaces if all(_matches(namespace, one) for one in conditions)]
    if operation.max_depth is not None:
        found = [namespace[: operation.max_depth] for namespace in found]
    return sorted(set(found))[operation.offset : operation.offset + operation.limit]


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", name) for name, wanted in zip(part, path, strict=True))
