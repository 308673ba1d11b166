"""Forms as JSON Schema, for clients that draw or check them by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.dsl.forms import FormField, form_fields, is_file, option_texts

__all__ = ["field_type", "form_schema"]

_TYPES: Mapping[str, str] = {"integer": "integer", "number": "number", "boolean": "boolean", "object": "object"}
"""JSON types of form fields; all others are texts."""


def field_type(field: FormField) -> dict[str, Any]:
    """Give the JSON type of a field that takes no files, and its choices.

    >>> field_type(FormField("size", "Size", "options", options=("S", "L")))
    {'type': 'string', 'enum': ['S', 'L']}
    """
    kind = field.type.lower()
    described: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if kind == "options" and field.options:
        described["enum"] = option_texts(field.options)
    return described


def form_schema(declared: Any) -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of the answers to a form, each field a plain value.

    Whatever fits it is accepted. Some that does not is accepted, too: numbers written as text, for example.
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
        described: dict[str, Any] = {"type": "array", "items": {}}
        if not field.is_optional:
            described["minItems"] = 1
    else:
        described = field_type(field)
    if field.is_optional:
        described["type"] = [described["type"], "null"]
        if "enum" in described:
            described["enum"] = [*described["enum"], None]
    described["title"] = field.label
    if field.value not in (None, "", [], {}):
        described["default"] = field.value
    return described
