"""``ragflow-lg components`` and ``prompts``: what canvases can use, and what the engine says to models."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import typer

from ragflow_lg.component.parameter_help import ParameterHelp, parameters_of
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec, ComponentParams, ToolRules
from ragflow_lg.component.tool import SearchOutputs
from ragflow_lg.dsl_compiler.placeholder import LEGACY, RENAMED, REPLACED
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.options import SettingsFile


def components(
    name: Annotated[str, typer.Argument(help="Describe this component and its parameters.", metavar="[NAME]")] = "",
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """List all components, or describe one with its parameters.

    Example: ragflow-lg components Switch
    """
    registry = catalog()
    if not name:
        sys.stdout.write(_list_all(registry, as_json=output == "json"))
        return
    spec = registry.get(RENAMED.get(name, name))
    if spec is None:
        near = registry.near(name)
        hint = f" Did you mean {' or '.join(near)}?" if near else " `ragflow-lg components` lists them."
        raise typer.BadParameter(_why_missing(name) or f"{name!r} is not a component.{hint}")
    as_json = json.dumps(_as_dict(spec), indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(as_json if output == "json" else _as_text(spec))


def _why_missing(name: str) -> str:
    """Return what became of a component of RAGFlow; "" if there was none with this name."""
    if name in LEGACY:
        return f"{name!r} was removed in RAGFlow 0.20. Its replacement: {LEGACY[name]}."
    return f"{name!r} is not a component here. Use {REPLACED[name]}." if name in REPLACED else ""


def _list_all(registry: Registry, *, as_json: bool) -> str:
    if as_json:
        specs = [_as_dict(spec) for spec in registry]
        return json.dumps({"components": specs, "legacy": LEGACY}, indent=2) + "\n"
    lines = [f"{spec.name:<20} {spec.description}" for spec in registry]
    lines += ["", "Describe one: ragflow-lg components NAME"]
    return "\n".join(lines) + "\n"


def _as_dict(spec: AnySpec) -> dict[str, Any]:
    common = ComponentParams.model_fields
    return {
        "name": spec.name,
        "description": spec.description,
        "kind": spec.kind,
        "aliases": list(spec.aliases),
        "outputs": _output_names(spec),
        "parameters": {one.name: {**one.as_dict(), "common": one.name in common} for one in parameters_of(spec.params)},
        "follows": spec.source,
        **({"service": spec.tool.service._asdict()} if spec.tool and spec.tool.service else {}),
        **({"canvas": _snippets(spec, spec.tool)} if spec.tool else {}),
    }


def _as_text(spec: AnySpec) -> str:
    lines = [f"{spec.name}: {spec.description}", ""]
    parameters = list(parameters_of(spec.params))
    own = [one for one in parameters if one.name not in ComponentParams.model_fields]
    lines += ["Parameters:", *_parameter_lines(own, 1)] if own else ["It has no parameters of its own."]
    lines += ["", "Parameters of every component:"]
    lines += _parameter_lines([one for one in parameters if one not in own], 1)
    lines += ["", f"Outputs: {', '.join(_output_names(spec)) or 'depend on the parameters'}"]
    lines += _tool_lines(spec, spec.tool) if spec.tool else []
    return "\n".join(lines) + "\n"


def _output_names(spec: AnySpec) -> list[str]:
    return [*spec.outputs.model_fields, *(["json"] if spec.outputs is SearchOutputs else [])]


def _tool_lines(spec: AnySpec, rules: ToolRules[Any, Any]) -> Iterator[str]:
    """Yield what a tool needs from the settings, and how a canvas uses it."""
    service = rules.service
    if service is not None:
        address = service.address or "none; the canvas or the settings contain it"
        yield from ("", f"Service: {service.name}", f"  endpoint: {address}")
        if service.key == "none":
            yield f"  settings: [tools.{service.section}] endpoint; no key is needed"
        else:
            yield f"  settings: [tools.{service.section}] api_key and endpoint; the key is {service.key}"
            yield f"  key in the canvas: {service.key_param}"
    if spec.example.settings:
        yield from ("", f"Settings: {spec.example.settings}")
    snippets = _snippets(spec, rules)
    yield from ("", "In the tools of an Agent:", f"  {json.dumps(snippets['tool'])}")
    yield from ("", "As a node:", f"  {json.dumps(snippets['node'])}")


def _snippets(spec: AnySpec, rules: ToolRules[Any, Any]) -> dict[str, Any]:
    """Return a tool as canvases contain it: as an entry in the tools of an Agent, and as a node."""
    example = spec.example
    query = {rules.needs: "{sys.query}"} if rules.needs else {}
    node_params = query if example.node_params is None else example.node_params
    obj = {"component_name": spec.name, "params": {**example.params, **node_params}}
    return {
        "tool": {"component_name": spec.name, "name": spec.name, "params": dict(example.params)},
        "node": {f"{spec.name}:First": {"obj": obj, "upstream": ["begin"], "downstream": []}},
    }


def _parameter_lines(parameters: Iterable[ParameterHelp], level: int) -> Iterator[str]:
    """Yield the lines for each parameter, followed by the lines for its nested keys."""
    indent = "  " * level
    for one in parameters:
        default = "required" if one.required else f"default {json.dumps(one.default, ensure_ascii=False)}"
        has_no_default = not one.required and one.default is None
        yield f"{indent}{one.name}: {one.type}{'' if has_no_default else '; ' + default}"
        if one.choices:
            yield from _wrap(f"one of: {', '.join(one.choices)}", indent)
        if one.about:
            yield from _wrap(one.about, indent)
        yield from _parameter_lines(one.inside, level + 2)


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    ")


def prompts(
    name: Annotated[str, typer.Argument(help="Print the text of this prompt.", metavar="[NAME]")] = "",
    settings: SettingsFile = None,
) -> None:
    """List the engine's prompts, or print the text of one.

    The text is the one in the settings, or that of their style, or else the default.

    Example: ragflow-lg prompts categorize
    """
    from ragflow_lg.models.prompt_texts import all_prompts, chosen_text
    from ragflow_lg.server.settings import load_settings

    chosen, known = load_settings(settings).prompts, all_prompts()
    if not name:
        replaced = {key for key, prompt in known.items() if chosen_text(chosen, key) != prompt.text}
        lines = [f"{key:<29} {'(replaced) ' * (key in replaced)}{prompt.purpose}" for key, prompt in known.items()]
        sys.stdout.write("\n".join([*lines, "", "Print one: ragflow-lg prompts NAME"]) + "\n")
        return
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`ragflow-lg prompts` lists them."
        raise typer.BadParameter(f"There is no prompt {name!r}. {hint}")
    sys.stdout.write(chosen_text(chosen, name).removesuffix("\n") + "\n")
