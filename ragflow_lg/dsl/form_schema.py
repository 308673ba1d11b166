"""Forms as JSON Schema, for API clients that validate forms themselves and for LangGraph chat UIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.dsl.forms import FormField, form_fields, is_file, option_texts

MAX_OPTIONS = 1_000

_FILE: dict[str, Any] = {
    "type": "object",
    "description": 'A file: {"name": "a.txt", "content": "its text, or a data: URI"}.',
    "properties": {"name": {"type": "string"}, "content": {"type": "string"}},
}
_TYPES: Mapping[str, str] = {"integer": "integer", "number": "number", "boolean": "boolean", "object": "object"}
"""The JSON types of form fields; all other fields are text."""


def field_type(field: FormField) -> dict[str, Any]:
    """Return the JSON type and the options of a field that is not a file field.

    >>> field_type(FormField("size", "Size", "options", options=("S", "L")))
    {'type': 'string', 'enum': ['S', 'L']}
    """
    kind = field.type.lower()
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if kind == "options" and field.options:
        schema["enum"] = option_texts(field.options)
    return schema


def form_schema(declared: Any) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) for answers to a form, in which each field is a plain value.

    The schema accepts every valid answer. It also accepts some invalid ones, such as numbers as text.
    """
    fields = list(form_fields(declared))
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if not field.is_optional],
        "additionalProperties": False,
    }


def _property(field: FormField) -> dict[str, Any]:
    if is_file(field.type):
        schema: dict[str, Any] = {"type": "array", "items": {}}
        if not field.is_optional:
            schema["minItems"] = 1
    else:
        schema = field_type(field)
    if field.is_optional:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    schema["title"] = field.label
    if field.value not in (None, "", [], {}):
        schema["default"] = field.value
    return schema


# LangGraph chat UIs


def response_schema(declared: Any, tips: str = "") -> dict[str, Any]:
    """Return the schema from which a LangGraph chat UI renders the fields of an ``inputs`` parameter.

    ``tips`` is the text of the form.

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
    """Return the schema for one field; the default type is text."""
    kind = field.type.lower()
    title_schema: dict[str, Any] = {"title": field.label}
    if is_file(kind):
        return {**title_schema, "type": "array", "items": _FILE}
    texts = option_texts(field.options[:MAX_OPTIONS]) if kind == "options" else []
    schema: dict[str, Any] = {**title_schema, "type": _TYPES.get(kind, "string")}
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
