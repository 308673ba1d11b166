"""``ragflow-lg components``: what can run."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec, ComponentParams
from ragflow_lg.dsl_compiler.known_components import LEGACY, NOT_YET
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.parameter_help import Parameter, parameters_of

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
        sys.stdout.write(_all(registry, output))
        return
    spec = registry.get(name)
    if spec is None:
        near = registry.near(name)
        hint = f" Did you mean {' or '.join(near)}?" if near else " `ragflow-lg components` lists them."
        reason = "is known, but cannot run yet." if name in NOT_YET else "is not a component."
        raise typer.BadParameter(f"{name!r} {reason}{hint if name not in NOT_YET else ''}")
    as_json = json.dumps(_described(spec), indent=2, ensure_ascii=False) + "\n" if output is Output.JSON else ""
    sys.stdout.write(as_json or _as_text(spec))


def _all(registry: Registry, output: Output) -> str:
    known = [name for name in sorted(NOT_YET) if registry.get(name) is None]
    if output is Output.JSON:
        described = [_described(spec) for spec in registry]
        return json.dumps({"components": described, "not_yet": known, "legacy": LEGACY}, indent=2) + "\n"
    lines = [f"{spec.name:<20} {spec.description}{'' if spec.is_ready else '  (not yet)'}" for spec in registry]
    lines += ["", f"Known, but not yet: {', '.join(known)}", "Parameters of one: ragflow-lg components NAME"]
    return "\n".join(lines) + "\n"


def _described(spec: AnySpec) -> dict[str, Any]:
    common = ComponentParams.model_fields
    return {
        "name": spec.name,
        "description": spec.description,
        "kind": spec.kind,
        "runs": spec.is_ready,
        "aliases": list(spec.aliases),
        "outputs": list(spec.outputs.model_fields),
        "parameters": {one.name: {**one.as_dict(), "common": one.name in common} for one in parameters_of(spec.params)},
        "follows": spec.source,
    }


def _as_text(spec: AnySpec) -> str:
    lines = [f"{spec.name}: {spec.description}", ""]
    lines += [] if spec.is_ready else ["This version cannot run it yet.", ""]
    every = list(parameters_of(spec.params))
    own = [one for one in every if one.name not in ComponentParams.model_fields]
    lines += ["Parameters:", *_listed(own, 1)] if own else ["It has no parameters of its own."]
    lines += ["", "Every component:", *_listed([one for one in every if one not in own], 1)]
    lines += ["", f"Outputs: {', '.join(spec.outputs.model_fields) or 'as its parameters say'}"]
    return "\n".join(lines) + "\n"


def _listed(parameters: Iterable[Parameter], level: int) -> Iterator[str]:
    """Give a line or more for each parameter, and below it those of the shapes inside."""
    indent = "  " * level
    for one in parameters:
        default = "required" if one.required else f"default {json.dumps(one.default, ensure_ascii=False)}"
        no_default = not one.required and one.default is None
        yield f"{indent}{one.name}: {one.type}{'' if no_default else '; ' + default}"
        if one.choices:
            yield from _wrapped(f"one of: {', '.join(one.choices)}", indent)
        if one.about:
            yield from _wrapped(one.about, indent)
        yield from _listed(one.inside, level + 2)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    ")
