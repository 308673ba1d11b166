"""Forms as JSON Schema, from which a chat page of LangGraph renders its fields."""

from __future__ import annotations

from typing import Any

from ragflow_lg.dsl.forms import FormField, form_fields, is_file, option_texts

__all__ = ["field_schema", "response_schema"]

MAX_OPTIONS = 1_000

_FILE: dict[str, Any] = {
    "type": "object",
    "description": 'A file: {"name": "a.txt", "content": "its text, or a data: URI"}.',
    "properties": {"name": {"type": "string"}, "content": {"type": "string"}},
}
_KINDS: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
}


def response_schema(declared: Any, tips: str = "") -> dict[str, Any]:
    """Return the schema of an answer to the fields of an ``inputs`` parameter; ``tips`` is the text of the form.

    >>> response_schema({"size": {"name": "Size", "type": "integer"}})["properties"]["size"]
    {'title': 'Size', 'type': 'integer'}
    """
    fields = list(form_fields(declared))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in fields},
        "required": [field.name for field in fields if not field.is_optional],
    }
    return {**schema, "description": tips} if tips else schema


def field_schema(field: FormField) -> dict[str, Any]:
    """Return the schema of one field; text is the default type."""
    kind = field.type.lower()
    title_schema: dict[str, Any] = {"title": field.label}
    if is_file(kind):
        return {**title_schema, "type": "array", "items": _FILE}
    texts = option_texts(field.options[:MAX_OPTIONS]) if kind == "options" else []
    schema = {**title_schema, **_KINDS.get(kind, {"type": "string"})}
    if texts:
        schema["enum"] = list(dict.fromkeys(texts))
    if isinstance(field.value, str | int | float | bool) and _fits(field.value, schema["type"]):
        schema["default"] = field.value
    return schema


def _fits(value: object, kind: str) -> bool:
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    expected = {"string": str, "integer": int, "number": (int, float)}.get(kind)
    return expected is not None and value != "" and isinstance(value, expected)
