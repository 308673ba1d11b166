"""The package for a plan: all files by their paths."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import CompileError
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.dsl_compiler.eject.flow_shape import FlowShape, NotEjectable, shape_flow
from ragflow_lg.dsl_compiler.eject.node_modules import NodeModule
from ragflow_lg.dsl_compiler.eject.package_files import (
    write_canvas,
    write_graph,
    write_project,
    write_readme,
    write_state,
)
from ragflow_lg.dsl_compiler.eject.package_model import Environment, PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import literal
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule
from ragflow_lg.dsl_compiler.eject.python_names import name_nodes, package_name
from ragflow_lg.dsl_compiler.eject.region_modules import RegionModule


def write_graph_test(model: PackageModel) -> str:
    """Return ``tests/test_graph.py``."""
    module = PythonModule(model.package, "Tests of the graph.")
    module.use(f"{model.package}.graph", "graph")
    plan = model.plan
    names = [model.name(node.id) for node in plan.nodes.values() if node.parent is None and node.rank >= 0]
    module.add(f"NODES = {literal([*names, 'finish'])}")
    module.add("def test_the_graph_has_all_nodes() -> None:", "    assert set(graph.get_graph().nodes) >= set(NODES)")
    return module.text()


def write_recording_test(model: PackageModel) -> str:
    """Return ``tests/test_recordings.py``."""
    module = PythonModule(model.package, "Plays the recorded runs in tests/recordings.")
    for name in ("asyncio", "json", "pytest"):
        module.use(name)
    module.use("pathlib", "Path")
    module.use("typing", "Any")
    module.use("langgraph.checkpoint.memory", "InMemorySaver")
    module.use("langchain_core.runnables", "RunnableConfig")
    module.use("ragflow_lg.ejected", "open_services")
    module.use(f"{model.package}.canvas", "CANVAS")
    module.use(f"{model.package}.graph", "build_graph")
    module.add('FOLDER = Path(__file__).parent / "recordings"')
    module.add(
        "async def play(name: str, request: Any) -> dict[str, Any]:",
        '    """Return the state after the turn of a recording."""',
        "    graph = build_graph().compile(checkpointer=InMemorySaver())",
        '    config: RunnableConfig = {"configurable": {"thread_id": name}}',
        '    async with open_services(recording=FOLDER / f"{name}.jsonl") as services:',
        "        await graph.ainvoke(request, config, context=services)",
        "    return (await graph.aget_state(config)).values",
    )
    module.add(
        '@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.jsonl")))',
        "def test_a_recorded_run_has_the_same_outputs(name: str) -> None:",
        '    expected = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))',
        '    state = asyncio.run(play(name, expected["request"]))',
        "    outputs = {node.id: state[key] for key, node in CANVAS.nodes.items() if state.get(key)}",
        '    assert outputs == expected["outputs"]',
        '    assert state["messages"][-1]["content"] == expected["answer"]',
    )
    return module.text()


class EjectedPackage(Struct, frozen=True):
    """The files of a package."""

    name: str
    """The name of the Python package."""
    files: Mapping[str, str]
    """Texts by path."""
    names: Mapping[str, str]
    """The functions of the nodes, by id."""
    secrets: Mapping[str, str]
    """The secrets of the canvas by environment variable. They are in no file."""


def eject_plan(plan: Plan, *, name: str = "", version: str, has_recordings: bool = False) -> EjectedPackage:
    """Return the package for a plan that has no errors. ``version`` is the release of ragflow-lg that it needs.

    With ``has_recordings``, a test plays the recordings in ``tests/recordings``.

    Raises:
        CompileError: if nodes have no counterpart in a plain graph; the diagnostics name them.
    """
    model = PackageModel(
        plan, package_name(name or plan.title), name_nodes(plan.nodes.values()), Environment(plan.redactor)
    )
    problems: list[Diagnostic] = []
    files: dict[str, str] = {}
    shapes = _shapes(plan, problems)
    for node in plan.nodes.values():
        if node.rank < 0 or node.spec.kind == "region_item" or node.parent not in shapes:
            continue
        try:
            if any(part.canvas is not None for part in node.with_tools()):
                raise NotEjectable(node, "it runs another canvas")
            files[f"{model.package}/nodes/{model.name(node.id)}.py"] = _write_node(model, shapes, node)
        except NotEjectable as problem:
            problems.append(_diagnostic(problem))
    if problems:
        raise CompileError(problems)
    title = "The nodes of the graph, one function each."
    files |= {
        f"{model.package}/__init__.py": '"""A graph from a RAGFlow canvas; see graph.py."""\n',
        f"{model.package}/nodes/__init__.py": f'"""{title}"""\n',
        f"{model.package}/state.py": write_state(
            model,
            [gate for shape in shapes.values() for gate in shape.gated.values()],
        ),
        f"{model.package}/canvas.py": write_canvas(model),
        f"{model.package}/graph.py": write_graph(model, shapes[None]),
        "pyproject.toml": write_project(model, version),
    }
    files["tests/test_graph.py"] = write_graph_test(model)
    if has_recordings:
        files["tests/test_recordings.py"] = write_recording_test(model)
    files["README.md"] = write_readme(model)
    names = {str(id_): name for id_, name in model.names.items()}
    return EjectedPackage(model.package, dict(sorted(files.items())), names, model.environment.secrets)


def _shapes(plan: Plan, problems: list[Diagnostic]) -> dict[str | None, FlowShape]:
    shapes: dict[str | None, FlowShape] = {}
    for region in (None, *plan.regions.values()):
        try:
            shapes[region.owner if region else None] = shape_flow(plan, region)
        except NotEjectable as problem:
            problems.append(_diagnostic(problem))
    return shapes


def _write_node(model: PackageModel, shapes: Mapping[str | None, FlowShape], node: PlanNode) -> str:
    shape = shapes[node.parent]
    region = model.plan.regions.get(node.id)
    if region is not None:
        if node.id not in shapes:
            raise NotEjectable(node, "its body has no counterpart")
        module = RegionModule(model, region, shape, shapes[node.id])
        module.check()
        return module.write()
    around = model.regions_around(node)
    return NodeModule(model, shape, node, model.round_node(around[-1]) if around else "").write()


def _diagnostic(problem: NotEjectable) -> Diagnostic:
    node = problem.node
    return Diagnostic(
        "eject-unsupported",
        "error",
        node.pointer,
        f"The node cannot be written as code: {problem.reason}.",
        node=node.id,
        title=node.title,
    )
