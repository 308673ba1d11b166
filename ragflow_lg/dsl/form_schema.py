"""Forms as JSON Schema, for clients that render or check forms themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.dsl.forms import FormField, form_fields, is_file, option_texts

__all__ = ["field_type", "form_schema"]

_TYPES: Mapping[str, str] = {"integer": "integer", "number": "number", "boolean": "boolean", "object": "object"}
"""JSON types of form fields; all others are texts."""


def field_type(field: FormField) -> dict[str, Any]:
    """Return the JSON type of a field other than a file field, and its options.

    >>> field_type(FormField("size", "Size", "options", options=("S", "L")))
    {'type': 'string', 'enum': ['S', 'L']}
    """
    kind = field.type.lower()
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if kind == "options" and field.options:
        schema["enum"] = option_texts(field.options)
    return schema


def form_schema(declared: Any) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the answers to a form, each field a plain value.

    Every valid answer is accepted. Some other answers are accepted as well, for example numbers as text.
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
