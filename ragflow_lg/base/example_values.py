"""Example values for JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_MAX_DEPTH = 8
_MAX_ITEMS = 10
_USUAL_ITEMS = 2
_FORMATS = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "email": "anna@example.com",
    "uri": "https://example.com/",
}


def example_value(schema: Any, name: str, depth: int = 0) -> Any:
    """Return an example value for a schema; None for anything nested too deeply. Texts say what they are samples of."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    fields = cast("Mapping[str, Any]", schema)
    for key in ("const", "default"):
        if fields.get(key) is not None:
            return fields[key]
    for key in ("enum", "examples"):
        if isinstance(values := fields.get(key), list) and values:
            return cast("list[Any]", values)[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(values := fields.get(key), list) and values:
            return example_value(cast("list[Any]", values)[0], name, depth + 1)
    return _of_type(fields, name, depth)


def _of_type(schema: Mapping[str, Any], name: str, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in cast("list[Any]", kind) if k != "null"), "null")
    kind = str(kind).lower() if kind is not None else None
    properties = schema.get("properties")
    if kind == "object" or (kind is None and isinstance(properties, Mapping)):
        members = cast("Mapping[str, Any]", properties if isinstance(properties, Mapping) else {})
        return {key: example_value(field, key, depth + 1) for key, field in members.items()}
    if kind == "array":
        items, count = schema.get("items") or {"type": "string"}, _count_items(schema)
        return [example_value(items, f"{name} {number}", depth + 1) for number in range(1, count + 1)]
    if kind in ("number", "integer"):
        bounds = [bound for key in ("minimum", "maximum") if isinstance(bound := schema.get(key), int | float)]
        return bounds[0] if bounds else 1
    text = _FORMATS.get(str(schema.get("format")), f"Sample {name.replace('_', ' ')}")
    return {"boolean": True, "null": None}.get(str(kind), text)


def _count_items(schema: Mapping[str, Any]) -> int:
    least, most = schema.get("minItems"), schema.get("maxItems")
    count = max(_USUAL_ITEMS, least) if isinstance(least, int) else _USUAL_ITEMS
    return min(count, most if isinstance(most, int) else _MAX_ITEMS, _MAX_ITEMS)
