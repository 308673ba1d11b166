"""What a canvas takes of a webhook's request: declared fields only, each of its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import orjson

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.values import JsonValue

__all__ = ["select_declared_fields"]

_EMPTY: Mapping[str, JsonValue] = {
    "string": "",
    "number": 0,
    "boolean": False,
    "object": {},
    "file": [],
    "null": None,
}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_ARRAY = "array"
MAX_NUMBER_CHARS = 400


def select_declared_fields(section: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Give the fields of ``query``, ``headers`` or ``body`` that its schema declares; empty values for missing ones.

    Texts are read as what the schema says: ``"3"`` for a number is 3. Names of headers have no case.

    Raises:
        RequestError: if a required field is missing or one has another type; the text names it.
    """
    part = _map(schema.get(section))
    properties = _map(part.get("properties"))
    required: Any = part.get("required")
    wanted = {str(name) for name in cast("list[Any]", required)} if isinstance(required, list) else set[str]()
    held = {name.lower(): value for name, value in given.items()} if section == "headers" else given
    taken: dict[str, JsonValue] = {}
    for name, declared in properties.items():
        kind = _kind(section, name, _map(declared))
        key = name.lower() if section == "headers" else name
        if key in held:
            taken[name] = _typed(f"{section}.{name}", held[key], kind)
        elif name in wanted:
            raise RequestError(f"{section} missing required field: {name}", 400)
        else:
            taken[name] = [] if kind.startswith(_ARRAY) else _EMPTY[kind]
    undeclared = sorted(name for name in wanted if name not in properties)
    if absent := [name for name in undeclared if (name.lower() if section == "headers" else name) not in held]:
        raise RequestError(f"{section} missing required field: {absent[0]}", 400)
    return taken


def _kind(section: str, name: str, declared: Mapping[str, Any]) -> str:
    """Give the type of a field; that of an array with the type of its items, as ``array<number>``."""
    kind = str(declared.get("type") or "string").lower().replace(" ", "")
    if kind == _ARRAY:
        items = str(_map(declared.get("items")).get("type") or "").lower()
        kind = f"{_ARRAY}<{items}>" if items else kind
    inner = kind.removeprefix(f"{_ARRAY}<").removesuffix(">") if kind.startswith(f"{_ARRAY}<") else ""
    if kind not in _EMPTY and kind != _ARRAY and inner not in _EMPTY:
        raise RequestError(f"The schema gives {section}.{name} a type that there is not: {kind!r:.60}.", 400)
    return kind


def _typed(path: str, value: Any, kind: str) -> JsonValue:
    if kind == _ARRAY or kind.startswith(f"{_ARRAY}<"):
        items = _parsed(value)
        if not isinstance(items, list):
            raise _mismatch(path, kind, value)
        inner = kind[len(_ARRAY) + 1 : -1] if kind != _ARRAY else ""
        listed = cast("list[Any]", items)
        return [_typed(f"{path}[{at}]", item, inner) for at, item in enumerate(listed)] if inner else listed
    is_fit, typed = _cast(value, kind)
    if not is_fit:
        raise _mismatch(path, kind, value)
    return typed


def _cast(value: Any, kind: str) -> tuple[bool, JsonValue]:
    """Give whether a value is of a type, and the value."""
    if kind == "string":
        return isinstance(value, str), value
    if kind == "number":
        number = _number(value) if isinstance(value, str) else value
        return _is_finite(number), number
    if kind == "boolean":
        found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
        return isinstance(found, bool), found
    if kind == "object":
        parsed = _parsed(value)
        return isinstance(parsed, dict), parsed
    if kind == "file":
        return isinstance(value, str | list | dict), value
    return value is None or value in ("", "null"), None


def _is_finite(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond all floating-point ones
        return False


def _number(text: str) -> Any:
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS or not text.isascii() or "_" in text:
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def _parsed(value: Any) -> Any:
    """Read a text as JSON; give other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def _mismatch(path: str, kind: str, value: Any) -> RequestError:
    return RequestError(f"{path} type mismatch: expected {kind}, got {_name(value)}", 400)


def _name(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")  # pyright: ignore[reportUnknownArgumentType]


def _map(given: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else {}
