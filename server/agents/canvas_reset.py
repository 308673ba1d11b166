"""Resetting a canvas to its state before the first conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, empty_like, empty_of_type

__all__ = ["reset_canvas"]

_TURN_DATA = ("history", "retrieval", "memory", "path")


def reset_canvas(dsl: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canvas without what its turns have left in it.

    ``history``, ``retrieval``, ``memory`` and ``path`` are emptied, ``sys.*`` get the empty value of their type,
    ``env.*`` the value declared in ``variables``.

    >>> reset_canvas({"path": ["begin"], "globals": {"sys.query": "Hi", "sys.conversation_turns": 3}})["globals"]
    {'sys.query': '', 'sys.conversation_turns': 0}
    """
    reset = {**dsl, **{name: list[Any]() for name in _TURN_DATA}}
    globals_: Any = dsl.get("globals")
    if isinstance(globals_, dict):
        variables: Any = dsl.get("variables")
        declarations = cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}
        values = cast("dict[str, Any]", globals_)
        reset["globals"] = {name: _value(name, value, declarations) for name, value in values.items()}
    return reset


def _value(name: str, value: Any, declarations: Mapping[str, Any]) -> JsonValue:
    if name.startswith("sys."):
        return empty_like(value)
    if not name.startswith("env."):
        return value
    variable: Any = declarations.get(name.removeprefix("env."))
    if not isinstance(variable, dict):
        return ""
    fields = cast("dict[str, Any]", variable)
    return fields["value"] if fields.get("value") is not None else empty_of_type(str(fields.get("type") or ""))
