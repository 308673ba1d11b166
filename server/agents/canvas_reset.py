"""Bringing a canvas back to how it was before anybody talked with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, empty_like, empty_of_type

__all__ = ["reset_canvas"]

_EMPTIED = ("history", "retrieval", "memory", "path")


def reset_canvas(dsl: Mapping[str, Any]) -> dict[str, Any]:
    """Give a canvas without what its turns have left in it.

    ``history``, ``retrieval``, ``memory`` and ``path`` are emptied, ``sys.*`` get the empty value of their type,
    ``env.*`` the value that ``variables`` declares.

    >>> reset_canvas({"path": ["begin"], "globals": {"sys.query": "Hi", "sys.conversation_turns": 3}})["globals"]
    {'sys.query': '', 'sys.conversation_turns': 0}
    """
    reset = {**dsl, **{name: list[Any]() for name in _EMPTIED}}
    globals_: Any = dsl.get("globals")
    if isinstance(globals_, dict):
        variables: Any = dsl.get("variables")
        declared = cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}
        held = cast("dict[str, Any]", globals_)
        reset["globals"] = {name: _value(name, value, declared) for name, value in held.items()}
    return reset


def _value(name: str, value: Any, declared: Mapping[str, Any]) -> JsonValue:
    if name.startswith("sys."):
        return empty_like(value)
    if not name.startswith("env."):
        return value
    variable: Any = declared.get(name.removeprefix("env."))
    if not isinstance(variable, dict):
        return ""
    known = cast("dict[str, Any]", variable)
    return known["value"] if known.get("value") is not None else empty_of_type(str(known.get("type") or ""))
