"""Selecting the declared fields of a webhook payload and converting them to their declared types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import orjson

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.values import JsonValue

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


def select_declared_fields(section: str, fields: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the fields of ``query``, ``headers`` or ``body`` declared in the schema. Missing fields get empty values.

    Strings are converted to the declared type: ``"3"`` for a number is 3. Header names are case-insensitive.

    Raises:
        RequestError: if a required field is missing or a field has the wrong type; the message names it.
    """
    part = _as_mapping(schema.get(section))
    properties = _as_mapping(part.get("properties"))
    required: Any = part.get("required")
    required_names = {str(name) for name in cast("list[Any]", required)} if isinstance(required, list) else set[str]()
    values = {name.lower(): value for name, value in fields.items()} if section == "headers" else fields
    selected: dict[str, JsonValue] = {}
    for name, declared in properties.items():
        kind = _parse_kind(section, name, _as_mapping(declared))
        key = name.lower() if section == "headers" else name
        if key in values:
            selected[name] = _convert(f"{section}.{name}", values[key], kind)
        elif name in required_names:
            raise RequestError(f"{section} missing required field: {name}", 400)
        else:
            selected[name] = [] if kind.startswith(_ARRAY) else _EMPTY[kind]
    undeclared = sorted(name for name in required_names if name not in properties)
    if absent := [name for name in undeclared if (name.lower() if section == "headers" else name) not in values]:
        raise RequestError(f"{section} missing required field: {absent[0]}", 400)
    return selected


def _parse_kind(section: str, name: str, declared: Mapping[str, Any]) -> str:
    """Return a field's type; for arrays, it includes the item type, as in ``array<number>``."""
    kind = str(declared.get("type") or "string").lower().replace(" ", "")
    if kind == _ARRAY:
        items = str(_as_mapping(declared.get("items")).get("type") or "").lower()
        kind = f"{_ARRAY}<{items}>" if items else kind
    inner = kind.removeprefix(f"{_ARRAY}<").removesuffix(">") if kind.startswith(f"{_ARRAY}<") else ""
    if kind not in _EMPTY and kind != _ARRAY and inner not in _EMPTY:
        raise RequestError(f"The schema declares an unknown type for {section}.{name}: {kind!r:.60}.", 400)
    return kind


def _convert(path: str, value: Any, kind: str) -> JsonValue:
    if kind == _ARRAY or kind.startswith(f"{_ARRAY}<"):
        items = _parse_json(value)
        if not isinstance(items, list):
            raise _build_mismatch(path, kind, value)
        inner = kind[len(_ARRAY) + 1 : -1] if kind != _ARRAY else ""
        item_list = cast("list[Any]", items)
        return [_convert(f"{path}[{at}]", item, inner) for at, item in enumerate(item_list)] if inner else item_list
    is_valid, converted = _convert_scalar(value, kind)
    if not is_valid:
        raise _build_mismatch(path, kind, value)
    return converted


def _convert_scalar(value: Any, kind: str) -> tuple[bool, JsonValue]:
    """Return whether a value is of a type, and the converted value."""
    if kind == "string":
        return isinstance(value, str), value
    if kind == "number":
        number = _parse_number(value) if isinstance(value, str) else value
        return _is_finite(number), number
    if kind == "boolean":
        flag = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
        return isinstance(flag, bool), flag
    if kind == "object":
        parsed = _parse_json(value)
        return isinstance(parsed, dict), parsed
    if kind == "file":
        return isinstance(value, str | list | dict), value
    return value is None or value in ("", "null"), None


def _is_finite(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the range of floats
        return False


def _parse_number(text: str) -> Any:
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS or not text.isascii() or "_" in text:
        return None
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _parse_json(value: Any) -> Any:
    """Parse a string as JSON; return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def _build_mismatch(path: str, kind: str, value: Any) -> RequestError:
    return RequestError(f"{path} type mismatch: expected {kind}, got {_name_type(value)}", 400)


def _name_type(value: object) -> str:
    names: dict[type, str] = {
        str: "string",
        bool: "boolean",
        int: "number",
        float: "number",
        dict: "object",
        list: "array",
    }
    return names.get(type(value), "null")


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
