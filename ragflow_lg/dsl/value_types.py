"""Types of values as far as they are known before a run, written as JSON Schema.

An empty schema means that nothing is known. Only ``type``, ``items``, ``properties`` and ``additionalProperties`` are
read; all other keywords are ignored.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, Union, cast, get_args, get_origin

from ragflow_lg.dsl.forms import FormField
from ragflow_lg.dsl.variable_references import Reference

Schema: TypeAlias = Mapping[str, Any]

UNKNOWN: Schema = {}

_BASIC: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TEXT_FIELDS = frozenset({"line", "paragraph", "options", "text"})
_MAX_PATH = 64


class ExpectedType(NamedTuple):
    """What a component needs a value to be. ``consequence`` says what happens otherwise, in a main clause."""

    reference: Reference
    types: frozenset[str]
    consequence: str


def schema_of_type(annotation: Any) -> Schema:
    """Return the schema of a type annotation. A value that may also be null has the schema of its other type.

    >>> schema_of_type(list[str] | None)
    {'type': 'array', 'items': {'type': 'string'}}
    """
    origin, parameters = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = [a for a in parameters if a is not type(None)]
        return schema_of_type(rest[0]) if len(rest) == 1 else UNKNOWN
    if annotation in _BASIC:
        return {"type": _BASIC[annotation]}
    if annotation is list or origin is list:
        return {
            "type": "array",
            **({"items": items} if parameters and (items := schema_of_type(parameters[0])) else {}),
        }
    return {"type": "object"} if annotation is dict or origin is dict else UNKNOWN


def schema_of_value(value: Any) -> Schema:
    """Return the schema of a value; null and empty text are unknown, since they often stand for a missing value."""
    if value is None or value == "":
        return UNKNOWN
    name = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    return {"type": name[type(value)]} if type(value) in name else UNKNOWN


def schema_of_name(name: Any) -> Schema:
    """Return the schema of a type name of the DSL, such as ``Array<String>`` or ``number``.

    >>> schema_of_name("Array<Number>")
    {'type': 'array', 'items': {'type': 'number'}}
    """
    text = name.strip().lower() if isinstance(name, str) else ""
    if text.startswith("array"):
        inner = schema_of_name(text[6:-1])
        return {"type": "array", **({"items": inner} if inner else {})}
    return {"type": text} if text in ("string", "number", "boolean", "object") else UNKNOWN


def schemas_of_fields(fields: Iterable[FormField]) -> dict[str, Schema]:
    """Return the schemas of a form's values."""
    kinds = {"integer": "integer", "number": "number", "boolean": "boolean", "object": "object"}
    return {
        field.name: {"type": "string"} if kind in _TEXT_FIELDS else {"type": kinds[kind]}
        for field in fields
        if (kind := field.type.lower()) in _TEXT_FIELDS or kind in kinds
    }


def type_name(schema: Schema) -> str:
    """Return the only type that a schema allows besides null, or ``""`` if it is unknown."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else _texts(declared)
    rest = [name for name in names if name != "null"]
    return rest[0] if len(rest) == 1 else ""


def find_entry(schema: Schema, path: Sequence[str]) -> Schema | None:
    """Return the schema of the value at a path, or None if there can be none.

    >>> find_entry({"type": "object", "properties": {"a": {"type": "string"}}}, ["b"]) is None
    True
    """
    for key in path[:_MAX_PATH]:
        kind = type_name(schema)
        if kind == "array" and (key.isdigit() or key == "-1"):
            schema = _as_schema(schema.get("items"))
        elif kind == "object" and isinstance(schema.get("properties"), Mapping) and schema["properties"]:
            properties = cast("Mapping[str, Any]", schema["properties"])
            if key not in properties:
                return UNKNOWN if schema.get("additionalProperties") not in (None, False) else None
            schema = _as_schema(properties[key])
        elif kind in ("number", "integer", "boolean"):
            return None
        else:
            return UNKNOWN
    return schema


def _as_schema(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else UNKNOWN


def _texts(value: Any) -> list[str]:
    return [name for name in cast("list[Any]", value) if isinstance(name, str)] if isinstance(value, list) else []
