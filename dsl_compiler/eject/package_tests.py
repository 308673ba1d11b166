"""The tests of a package: one of its graph, and one that plays recorded runs."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.eject.package_model import PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import literal
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule


def write_graph_test(model: PackageModel) -> str:
    """Return ``tests/test_graph.py``."""
    module = PythonModule(model.package, "Tests of the graph.")
    module.use(f"{model.package}.graph", "graph")
    plan = model.plan
    names = [model.name(node.id) for node in plan.nodes.values() if node.parent is None and node.rank >= 0]
    module.add(f"NODES = {literal([*names, 'finish'])}")
    module.add(
        "def test_the_graph_has_all_nodes() -> None:",
        "    assert set(graph.get_graph().nodes) >= set(NODES)",
    )
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
