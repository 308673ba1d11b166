"""The JSON Schema for a canvas, for editors. It is built from the components' params models.

It is as lenient as the compiler: null means "not set", a single value means a list of one item, and a number may be
a string.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema

from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl.compatibility import ALL, BEHAVIOURS, RAGFLOW, WIRES
from ragflow_lg.dsl.variable_references import Reference, Template

SCHEMA_ID = "urn:ragflow-lg:canvas:1"

_COMPAT: dict[str, Any] = {
    "description": "Behaviours of RAGFlow to follow where ragflow-lg differs: all of them, or by name.",
    "anyOf": [
        {"const": RAGFLOW},
        {
            "type": "object",
            "properties": {
                **{name: {"type": "boolean"} for name in (ALL, *BEHAVIOURS)},
                RAGFLOW: {
                    "type": "string",
                    "examples": [*WIRES],
                    "description": "The RAGFlow whose HTTP API clients get.",
                },
            },
            "additionalProperties": False,
        },
        {"type": "null"},
    ],
}


def canvas_schema(catalog: Registry) -> dict[str, Any]:
    """Return the schema (draft 2020-12). It also accepts a template's wrapper and a graph-only export."""
    document = json.loads(Path(__file__).with_name("schema_definitions.json").read_text("utf-8"))
    document["Document"]["properties"]["compat"] = _COMPAT
    definitions: dict[str, Any] = {}
    document["Component"]["allOf"] = _choices(catalog, definitions)
    template = {"dsl": {"$ref": "#/$defs/Document"}, "compat": _COMPAT}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "RAGFlow canvas (DSL v1)",
        "anyOf": [{"$ref": "#/$defs/Document"}, {"type": "object", "properties": template, "required": ["dsl"]}],
        "$defs": {**document, **dict(sorted(definitions.items()))},
    }


def _choices(catalog: Registry, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return which params go with which component, and add their schemas to the definitions."""
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
    return choices


class _SchemaGenerator(GenerateJsonSchema):
    """Writes the default of a template or a reference as its text."""

    def encode_default(self, dft: Any) -> Any:
        """Return a default as JSON."""
        return super().encode_default(str(dft) if isinstance(dft, (Template, Reference)) else dft)


def params_schema(spec: AnySpec) -> dict[str, Any]:
    """Return the schema of one component's params, complete in itself."""
    definitions: dict[str, Any] = {}
    schema = _params_schema(spec, definitions)
    return {**schema, "$defs": definitions} if definitions else schema


def _params_schema(spec: AnySpec, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = spec.params.model_json_schema(
        by_alias=True, ref_template=f"#/$defs/{spec.name}.{{model}}", schema_generator=_SchemaGenerator
    )
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
