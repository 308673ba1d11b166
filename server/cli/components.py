"""``ragflow-lg components``: what can run."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from dsl_compiler.known_components import LEGACY, NOT_YET
from ragflow_lg.spec import ComponentParams, ComponentSpec
from server.library import catalog

__all__ = ["components"]


class Output(StrEnum):
    """How to write the list."""

    TEXT = "text"
    JSON = "json"


def components(
    name: Annotated[str, typer.Argument(help="Show one component with its parameters.", metavar="[NAME]")] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """List the components and what each can do.

    Example: ragflow-lg components Switch
    """
    registry = catalog()
    if not name:
        described = [_described(spec) for spec in registry]
        known = [n for n in sorted(NOT_YET) if registry.get(n) is None]
        if output is Output.JSON:
            sys.stdout.write(json.dumps({"components": described, "not_yet": known, "legacy": LEGACY}, indent=2) + "\n")
            return
        for entry in described:
            state = "" if entry["runs"] else "  (not yet)"
            sys.stdout.write(f"{entry['name']:<20} {entry['description']}{state}\n")
        sys.stdout.write(f"\nKnown, but not yet: {', '.join(known)}\n")
        sys.stdout.write("Parameters of one: ragflow-lg components NAME\n")
        return
    spec = registry.get(name)
    if spec is None:
        near = registry.near(name)
        hint = f" Did you mean {' or '.join(near)}?" if near else " `ragflow-lg components` lists them."
        reason = "is known, but cannot run yet." if name in NOT_YET else "is not a component."
        raise typer.BadParameter(f"{name!r} {reason}{hint if name not in NOT_YET else ''}")
    entry = _described(spec)
    sys.stdout.write(
        json.dumps(entry, indent=2, ensure_ascii=False) + "\n" if output is Output.JSON else _as_text(entry)
    )


def _described(spec: ComponentSpec[Any]) -> dict[str, Any]:
    schema = spec.params.model_json_schema(by_alias=True)
    required = set(schema.get("required", []))
    parameters = {
        key: {
            "type": _type_of(value),
            "default": value.get("default"),
            "required": key in required,
            "about": value.get("description", ""),
            "common": key in ComponentParams.model_fields,
        }
        for key, value in schema["properties"].items()
    }
    return {
        "name": spec.name,
        "description": spec.description,
        "kind": spec.kind,
        "runs": spec.is_ready,
        "aliases": list(spec.aliases),
        "outputs": list(spec.outputs.model_fields),
        "parameters": parameters,
        "follows": spec.source,
    }


def _type_of(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type_of(option) for option in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return str(schema.get("type", "anything"))


def _as_text(entry: dict[str, Any]) -> str:
    lines = [f"{entry['name']}: {entry['description']}", ""]
    lines += [] if entry["runs"] else ["This version cannot run it yet.", ""]
    for is_common in (False, True):
        lines.append("Every component:" if is_common else "Parameters:")
        for key, about in entry["parameters"].items():
            if about["common"] is is_common:
                default = (
                    "required" if about["required"] else f"default {json.dumps(about['default'], ensure_ascii=False)}"
                )
                lines.append(f"  {key:<28} {about['type']}; {default}")
    lines += ["", f"Outputs: {', '.join(entry['outputs']) or 'as its parameters say'}"]
    return "\n".join(lines) + "\n"
