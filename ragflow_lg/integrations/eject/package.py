"""The package for a canvas: all files by their paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler.compiler import CheckedCanvas
from ragflow_lg.dsl_compiler.draft import RawComponent
from ragflow_lg.dsl_compiler.passes.bind_components import keys_without_effect
from ragflow_lg.dsl_compiler.passes.bind_globals import SYSTEM_DEFAULTS
from ragflow_lg.integrations.eject.environment import Environment
from ragflow_lg.integrations.eject.python_literals import comment, literal, quoted
from ragflow_lg.integrations.eject.python_names import name_nodes, package_name

_ENVIRONMENT = """
## Environment

The canvas contained secrets. Set them:

| variable |
| --- |
"""


class EjectedPackage(Struct, frozen=True):
    """The files of a package."""

    name: str
    """The name of the Python package."""
    files: Mapping[str, str]
    """Texts by path."""
    names: Mapping[str, str]
    """The Python names of the nodes, by id."""
    secrets: Mapping[str, str]
    """The secrets of the canvas by environment variable. They are in no file."""


def eject_canvas(
    canvas: CheckedCanvas, *, name: str = "", version: str, has_recordings: bool = False
) -> EjectedPackage:
    """Return the package for a canvas. ``version`` is the release of ragflow-lg that it needs.

    With ``has_recordings``, a test plays the recordings in ``tests/recordings``.

    Raises:
        CompileError: if the canvas has errors, or a node runs another canvas.
    """
    plan, draft = canvas.valid_plan(), canvas.draft
    assert draft is not None
    if problems := [_refusal(node) for node in plan.nodes.values() if any(part.canvas for part in node.with_tools())]:
        raise CompileError(problems)
    package, names = package_name(name or plan.title), name_nodes(plan.nodes.values())
    environment = Environment(plan.redactor)
    files = {
        f"{package}/nodes/{names[node.id]}.py": _write_node(node, draft.components[node.id], names, environment)
        for node in plan.nodes.values()
    }
    files |= {
        f"{package}/__init__.py": '"""A graph from a RAGFlow canvas; see graph.py."""\n',
        f"{package}/nodes/__init__.py": '"""The nodes of the graph."""\n',
        f"{package}/graph.py": _write_graph(package, plan, draft.components, names, environment),
        "pyproject.toml": _write_project(package, plan, version),
        "tests/test_graph.py": _fill("test_graph", package=package),
        "README.md": _write_readme(package, plan, names, environment),
    }
    if has_recordings:
        files["tests/test_recordings.py"] = _fill("test_recordings", package=package)
    ids = {str(id_): name for id_, name in names.items()}
    return EjectedPackage(package, dict(sorted(files.items())), ids, environment.secrets)


def _fill(template: str, /, **values: str) -> str:
    """Return the text of a template with its values."""
    text = (Path(__file__).parent / "templates" / f"{template}.txt").read_text("utf-8")
    return Template(text).substitute(values)


def _refusal(node: PlanNode) -> Diagnostic:
    message = "The node cannot be written as code: it runs another canvas."
    return Diagnostic("eject-unsupported", "error", node.pointer, message, node=node.id, title=node.title)


def _write_node(node: PlanNode, component: RawComponent, names: Mapping[NodeId, str], environment: Environment) -> str:
    name = names[node.id]
    params = environment.without_secrets(_needed_params(node, component, names), name)
    arguments = [quoted(node.id), quoted(node.spec.name), literal(params, 1) if params else "{}"]
    arguments += [f"title={quoted(node.title)}"] if node.title else []
    code = "".join(f"    {argument},\n" for argument in arguments)
    head = _head(f"{node.title or node.id}: {node.spec.description}", code, "from ragflow_lg.ejected import Node")
    return f"{head}\n{name} = Node(\n{code})\n"


def _head(summary: str, code: str, *imports: str) -> str:
    """Return the docstring and the imports of a module."""
    needed = ["import os\n"] if "os.environ" in code else []
    needed += ["from typing import Any\n"] if "Any]" in code else []
    return f'"""{comment(summary)}"""\n\n' + "\n".join([*needed, *imports]) + "\n"


def _needed_params(node: PlanNode, component: RawComponent, ids: Iterable[NodeId]) -> dict[str, Any]:
    """Return the params that the component reads, without the editor's keys and without defaults."""
    model = node.spec.params
    scope = ReferenceScope(frozenset(ids), True)

    def read(params: Mapping[str, Any]) -> Any:
        try:
            return model.model_validate(params, context={"scope": scope}).model_dump(mode="json")
        except ValidationError:
            return None

    known = {*model.model_fields, *(field.alias for field in model.model_fields.values())}
    unread = keys_without_effect(node.spec) - known
    kept = {key: value for key, value in component.params.items() if key not in unread and value is not None}
    whole = read(kept)
    for key in list(kept):
        rest = {other: value for other, value in kept.items() if other != key}
        if whole is not None and read(rest) == whole:
            kept = rest
    return kept


def _write_graph(
    package: str,
    plan: Plan,
    components: Mapping[str, RawComponent],
    names: Mapping[NodeId, str],
    environment: Environment,
) -> str:
    own = {name: value for name, value in plan.globals.items() if name not in SYSTEM_DEFAULTS}
    variables = literal(environment.without_secrets(own, package))
    arguments = [quoted(plan.title), *(["variables=VARIABLES"] if own else [])]
    compat = dict.fromkeys(plan.compatibility.names, True)
    arguments += [f"compat={literal(compat)}"] if compat else []
    lines = [f"    canvas = Canvas({', '.join(arguments)})"]
    for node in plan.nodes.values():
        inside = f", inside={names[node.parent]}" if node.parent else ""
        lines.append(f"    canvas.add_node({names[node.id]}{inside})")
    for component in components.values():
        targets = (names[NodeId(target)] for target in component.downstream if target in names)
        lines += [f"    canvas.add_edge({names[NodeId(component.id)]}, {target})" for target in targets]
    code = "\n".join(
        [
            *([f"VARIABLES: dict[str, Any] = {variables}", ""] if own else []),
            "",
            "def build_canvas() -> Canvas:",
            '    """Return the canvas; its method `compile` returns the graph."""',
            *lines,
            "    return canvas",
        ]
    )
    imports = "\n".join(f"from {package}.nodes.{name} import {name}" for name in sorted(names.values()))
    head = _head(f"The graph: {plan.title or package}.", code, "from ragflow_lg.ejected import Canvas\n", imports)
    return f"{head}\n{code}\n"


def _write_project(package: str, plan: Plan, version: str) -> str:
    description = comment(plan.title) or "A graph from a RAGFlow canvas."
    return _fill(
        "pyproject",
        name=json.dumps(package.replace("_", "-")),
        description=json.dumps(description, ensure_ascii=False),
        version=version,
        package=json.dumps(package),
        subpackages=json.dumps(f"{package}.*"),
    )


def _write_readme(package: str, plan: Plan, names: Mapping[NodeId, str], environment: Environment) -> str:
    nodes = plan.nodes.values()
    secrets = "".join(f"| `{name}` |\n" for name in sorted(environment.secrets))
    return _fill(
        "readme",
        title=_cell(plan.title) or package,
        package=package,
        rows="\n".join(f"| `{names[n.id]}` | {n.spec.name} | {_cell(n.title or n.id)} |" for n in nodes),
        environment=f"{_ENVIRONMENT}{secrets}" if secrets else "",
    )


def _cell(text: str) -> str:
    """Return a text of the canvas as plain Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]()<>#+!|~&$:" else char for char in comment(text))
