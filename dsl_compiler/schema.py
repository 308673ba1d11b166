"""The JSON Schema for a canvas (DSL v1), for editors. It is built from the components' params models.

It is as lenient as the compiler: null means "not set", a single value means a list of one item, and a number may be a
string.
"""

from __future__ import annotations

from typing import Any, cast

from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl.compatibility import ALL, BEHAVIOURS

SCHEMA_ID = "urn:ragflow-lg:canvas:1"

_COMPAT: dict[str, Any] = {
    "description": "Behaviours of RAGFlow to follow where ragflow-lg differs: all of them, or by name.",
    "anyOf": [
        {"const": ALL},
        {
            "type": "object",
            "properties": {name: {"type": "boolean"} for name in (ALL, *BEHAVIOURS)},
            "additionalProperties": False,
        },
        {"type": "null"},
    ],
}

_ID_LIST = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": "null"}]}


def canvas_schema(catalog: Registry) -> dict[str, Any]:
    """Return the schema (draft 2020-12). It also accepts a template's wrapper and a graph-only export."""
    definitions: dict[str, Any] = {}
    choices: list[dict[str, Any]] = []
    for spec in catalog:
        definitions[spec.name] = _params_schema(spec, definitions)
        names = [spec.name, *spec.aliases]
        choices.append(
            {
                "if": {"properties": {"component_name": {"enum": names}}, "required": ["component_name"]},
                "then": {"properties": {"params": {"$ref": f"#/$defs/{spec.name}"}}},
            }
        )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "RAGFlow canvas (DSL v1)",
        "anyOf": [
            {"$ref": "#/$defs/Document"},
            {
                "type": "object",
                "properties": {"dsl": {"$ref": "#/$defs/Document"}, "compat": _COMPAT},
                "required": ["dsl"],
            },
        ],
        "$defs": {**_document_definitions(choices), **dict(sorted(definitions.items()))},
    }


def _document_definitions(choices: list[dict[str, Any]]) -> dict[str, Any]:
    any_object = {"type": "object"}
    return {
        "Document": {
            "type": "object",
            "anyOf": [{"required": ["components"]}, {"required": ["graph"]}],
            "properties": {
                "components": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Node"}},
                "globals": {"type": "object", "description": "sys.* and env.* values; the dot is part of the key."},
                "variables": {"description": "Defaults of env.*, by name.", "type": ["object", "array"]},
                "graph": {"type": "object", "properties": {"nodes": {"type": "array"}, "edges": {"type": "array"}}},
                "path": {"type": "array"},
                "history": {"type": "array"},
                "retrieval": {"type": ["array", "object"]},
                "memory": {"type": "array"},
                "compat": _COMPAT,
            },
        },
        "Node": {
            "type": "object",
            "properties": {
                "obj": {"$ref": "#/$defs/Component"},
                "downstream": {"anyOf": [*_ID_LIST["anyOf"], any_object]},
                "upstream": _ID_LIST,
                "parent_id": {"type": ["string", "null"]},
            },
            "required": ["obj"],
        },
        "Component": {
            "type": "object",
            "properties": {"component_name": {"type": "string"}, "params": any_object},
            "required": ["component_name"],
            "allOf": choices,
        },
    }


def _params_schema(spec: AnySpec, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = spec.params.model_json_schema(by_alias=True, ref_template=f"#/$defs/{spec.name}.{{model}}")
    for name, inner in cast("dict[str, Any]", schema.pop("$defs", {})).items():
        definitions[f"{spec.name}.{name}"] = _lenient(inner)
    # Older and simplified shapes use other parameter names; the compiler reports missing ones.
    schema.pop("required", None)
    return {**_lenient(schema), "description": spec.description}


def _lenient(schema: dict[str, Any]) -> dict[str, Any]:
    """Loosen the properties of an object schema."""
    loosened = {key: value for key, value in schema.items() if key not in ("required", "title")}
    if "properties" in schema:
        loosened["properties"] = {
            name: _optional({k: v for k, v in value.items() if k != "title"})
            for name, value in schema["properties"].items()
        }
    return loosened


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Also accept null and the lenient ways to write a value."""
    about = {key: schema[key] for key in ("description", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    kind = rest.get("type")
    options = [rest, {"type": "null"}]
    if kind == "array":
        options += [cast("dict[str, Any]", rest.get("items") or {}), {"type": "string"}]
    elif kind in ("integer", "number"):
        options.append({"type": "string"})
    elif kind == "string":
        options.append({"type": ["number", "boolean"]})
    return {**about, "anyOf": options} if rest else about
