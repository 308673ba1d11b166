"""The files of a package besides its nodes: state, canvas, graph, project, README."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.eject.flow_shape import FlowShape, forward_targets
from ragflow_lg.dsl_compiler.eject.graph_code import GraphCode
from ragflow_lg.dsl_compiler.eject.package_model import PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import comment, literal, quoted
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule


def write_state(model: PackageModel, gates: Iterable[JoinRegion]) -> str:
    """Return ``state.py``: a channel for the outputs of each node."""
    module = PythonModule(model.package, "The state of the graph: the conversation, and the outputs of each node.")
    module.use_public("Outputs", "TurnState")
    plan = model.plan
    assigned = {r.node for node in plan.nodes.values() for r in node.spec.writes(node.params) if r.kind == "output"}
    lines = [
        "class State(TurnState, total=False):",
        '    """The outputs of each node in this turn, by its function."""',
        "",
    ]
    for node in _reachable(model):
        kind = "Outputs"
        if node.id in assigned:
            module.use("typing", "Annotated")
            module.use_public("merge")
            kind = "Annotated[Outputs, merge]"
        lines.append(f"    {model.name(node.id)}: {kind}")
        lines.append(f'    """{comment(node.title or node.id)}: {node.spec.name}."""')
        if node.id in plan.regions:
            lines += _region_channels(model, node, module)
    for gate in gates:
        module.use("typing", "Annotated", "Any")
        module.use_public("Join")
        lines += _join_channel(model, gate)
    module.add(*lines)
    return module.text()


def _region_channels(model: PackageModel, node: PlanNode, module: PythonModule) -> Iterable[str]:
    name, region = model.name(node.id), model.plan.regions[node.id]
    yield f"    {name}_round: int"
    yield '    """The number of the current round, starting at 0."""'
    if node.spec.yields_items:
        module.use("typing", "Any")
        yield f"    {name}_items: list[Any]"
        yield f"    {name}_results: dict[str, list[Any]]"
        if region.item is None:
            yield f"    {model.round_node(region)}: Outputs"


def _join_channel(model: PackageModel, gate: JoinRegion) -> Iterable[str]:
    name = model.name(gate.join)
    between = {model.name(node): names_of(model, before) for node, before in gate.nodes}
    arguments = [quoted(name), literal(names_of(model, gate.predecessors)), literal(between)]
    arguments.append(literal(sorted(names_of(model, gate.watched))))
    yield f"    join_{name}: Annotated[dict[str, Any], Join({', '.join(arguments)})]"
    yield f'    """Lets {name} wait for those nodes before it that can still run."""'


def _reachable(model: PackageModel) -> list[PlanNode]:
    return [node for node in model.plan.nodes.values() if node.rank >= 0]


def write_canvas(model: PackageModel) -> str:
    """Return ``canvas.py``: the nodes by their ids in RAGFlow, and the variables."""
    module = PythonModule(
        model.package, "The canvas of this graph: its nodes as RAGFlow names them, and its variables."
    )
    module.use_public("Canvas", "Node")
    lines = [f"VARIABLES: dict[str, Any] = {model.variables()}"]
    module.use("typing", "Any")
    if "os.environ" in lines[0]:
        module.use("os")
    module.add(*lines)
    nodes = [f"        {model.quoted_name(node.id)}: {_node(model, node)}," for node in model.plan.nodes.values()]
    behaviours = model.plan.compatibility.names
    compatibility = [f"    compatibility={literal(list(behaviours))},"] if behaviours else []
    title = quoted(model.plan.title)
    module.add("CANVAS = Canvas(", f"    {title},", "    {", *nodes, "    },", "    VARIABLES,", *compatibility, ")")
    return module.text()


def _node(model: PackageModel, node: PlanNode) -> str:
    arguments = [quoted(node.id), quoted(node.spec.name)]
    arguments += [f"title={quoted(node.title)}"] if node.title else []
    arguments += [f"declared={literal(sorted(node.declared))}"] if node.declared else []
    arguments += [f"rank={node.rank}"] if node.rank > 0 else []
    rounds = [f"{model.name(region.owner)}_round" for region in model.regions_around(node)]
    arguments += [f"rounds={literal(rounds)}"] if rounds else []
    item = model.item_node(node)
    arguments += [f"item={quoted(item)}"] if item else []
    line = f"Node({', '.join(arguments)})"
    if len(line) <= 80:
        return line
    return "Node(\n" + "".join(f"            {argument},\n" for argument in arguments) + "        )"


def write_graph(model: PackageModel, shape: FlowShape) -> str:
    """Return ``graph.py``: the nodes, the edges and the graph."""
    plan = model.plan
    module = PythonModule(model.package, f"The graph: {plan.title or model.package}.")
    module.use(f"{model.package}.state", "State")
    module.use(f"{model.package}.canvas", "CANVAS")
    module.use("langgraph.graph", "START")
    module.use_public("StateUpdate")
    entry = model.quoted_name(plan.entry)
    last = "" if not shape.is_single else ", CANVAS.last_of(state, " + ", ".join(_ends(model, shape)) + ")"
    module.add(
        "async def finish(state: State) -> StateUpdate:",
        '    """Add the answer of the node that ended the turn to the conversation."""',
        f"    return CANVAS.close_turn(state{last})",
    )
    code = GraphCode(model, module, shape, "build_graph")
    code.add_nodes()
    code.add_node("finish", is_local=True, is_deferred=True)
    code.lines.append(f"builder.add_edge(START, {entry})")
    code.add_edges()
    code.lines.append(f'builder.add_edge({entry}, "finish")')
    summary = "Return the graph; compile it with a checkpointer to keep conversations."
    module.add(*code.function(summary, model.name(plan.entry)))
    steps = 1000 if plan.cyclic else len(plan.nodes) + 10
    module.add(f'graph = build_graph().compile().with_config({{"recursion_limit": {steps}}})')
    return module.text()


def _ends(model: PackageModel, shape: FlowShape) -> list[str]:
    """Return the nodes that may end a turn; those that lead to another one come after it."""
    ends = [node for node in shape.nodes if _may_end(model, shape, node)]
    ends.sort(key=lambda node: (len(shape.reachable(node.id)), -node.rank))
    return [model.quoted_name(node.id) for node in ends]


def _may_end(model: PackageModel, shape: FlowShape, node: PlanNode) -> bool:
    ways = [route.targets for route in node.spec.routes(node.params)] if node.routes else [node.downstream]
    ways += [node.on_error.goto] if node.on_error.jumps else []
    return not shape.successors[node.id] or any(not forward_targets(model.plan, node, way) for way in ways)


def write_project(model: PackageModel, version: str) -> str:
    """Return ``pyproject.toml``."""
    name = json.dumps(model.package.replace("_", "-"))
    description = json.dumps(comment(model.plan.title) or "A graph from a RAGFlow canvas.", ensure_ascii=False)
    return f"""[project]
name = {name}
version = "0.1.0"
description = {description}
requires-python = ">=3.11"
dependencies = ["langgraph", "ragflow-lg=={version}"]

[project.optional-dependencies]
dev = ["pyright", "pytest", "ruff"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools.packages.find]
include = [{json.dumps(model.package)}, {json.dumps(model.package + ".*")}]

[tool.ruff]
line-length = 100

[tool.ruff.lint]
select = ["E4", "E7", "E9", "F", "I"]

[tool.pyright]
typeCheckingMode = "strict"
# LangGraph hands out partly unknown types.
reportMissingTypeStubs = false
reportUnknownMemberType = false
"""


def write_readme(model: PackageModel) -> str:
    """Return ``README.md``: how to run the graph, and what its nodes were in the canvas."""
    plan = model.plan
    rows = "\n".join(
        f"| `{model.name(node.id)}` | {node.spec.name} | {_cell(node.title or node.id)} |" for node in _reachable(model)
    )
    left = [node for node in plan.nodes.values() if node.rank < 0]
    skipped = (
        f"\nNot reached in the canvas, and left out: {', '.join(_cell(n.title or n.id) for n in left)}.\n"
        if left
        else ""
    )
    secrets = "".join(f"| `{name}` |\n" for name in sorted(model.environment.secrets))
    environment = (
        f"\n## Environment\n\nThe canvas contained secrets. Set them:\n\n| variable |\n| --- |\n{secrets}"
        if secrets
        else ""
    )
    return f"""# {_cell(plan.title) or model.package}

A LangGraph graph, written by `ragflow-lg eject` from a RAGFlow canvas. The code is yours: change it as you like.

```python
import asyncio

from ragflow_lg.ejected import open_services
from {model.package}.graph import graph


async def main() -> None:
    async with open_services(model="demo") as services:
        state = await graph.ainvoke({{"query": "Hello"}}, context=services)
        print(state["messages"][-1]["content"])


asyncio.run(main())
```

`open_services()` opens the models, datasets and tools of your `ragflow-lg.toml`; `model="demo"` needs no settings.

| file | contents |
| --- | --- |
| `{model.package}/graph.py` | the nodes and edges |
| `{model.package}/state.py` | the state |
| `{model.package}/nodes/` | one function a node |
| `{model.package}/canvas.py` | the ids of the nodes in RAGFlow, and the variables |
| `tests/` | tests; run them with `pytest` |

| function | component | title |
| --- | --- | --- |
{rows}
{skipped}{environment}"""


def _cell(text: str) -> str:
    """Return a text of the canvas as plain Markdown."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]()<>#+!|~&$:" else char for char in comment(text))


def names_of(model: PackageModel, ids: Iterable[NodeId]) -> list[str]:
    """Return the names of functions."""
    return [model.name(id_) for id_ in ids]
