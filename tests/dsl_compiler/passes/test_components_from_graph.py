import time
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph
from tests.fakes.canvas import CATALOG, diagnostics_of, plan_of


def graph_node(id_: str, label: str, form: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": id_, "data": {"label": label, "name": f"{label} title", "form": form}, **more}


def edge(source: str, target: str, handle: str = "start") -> dict[str, Any]:
    return {"source": source, "target": target, "sourceHandle": handle, "targetHandle": "end"}


CONDITION = {"items": [{"cpn_id": "sys.query", "operator": "not empty", "value": ""}]}


def test_nodes_and_edges_become_components() -> None:
    graph = {
        "nodes": [
            graph_node("begin", "Begin"),
            graph_node("s", "Switch", {"conditions": [CONDITION]}),
            graph_node("m", "Message", {"content": ["m"]}),
            graph_node("e", "Message", {"content": ["e"]}),
            graph_node("note", "Note"),
        ],
        "edges": [edge("begin", "s"), edge("s", "m", "Case 1"), edge("s", "e", "end_cpn_ids")],
    }
    plan = plan_of({"graph": graph})
    assert list(plan.nodes) == ["begin", "s", "m", "e"]
    assert [route.targets for route in plan.nodes[NodeId("s")].routes] == [("m",), ("e",)]
    assert plan.nodes[NodeId("m")].title == "Message title"
    assert plan.nodes[NodeId("m")].pointer == "/graph/nodes/2"
    assert diagnostics_of({"graph": graph}, "document-rewritten")[0].severity == "info"


def test_category_targets_come_from_handles() -> None:
    form = {"items": [{"name": "yes", "uuid": "u1", "examples": [{"value": "y"}]}, {"name": "no", "uuid": "u2"}]}
    graph = {
        "nodes": [
            graph_node("begin", "Begin"),
            graph_node("c", "Categorize", form),
            graph_node("m", "Message", {"content": ["m"]}),
        ],
        "edges": [edge("begin", "c"), edge("c", "m", "u1"), edge("c", "m", "u2")],
    }
    assert [(r.label, r.targets) for r in plan_of({"graph": graph}).nodes[NodeId("c")].routes] == [
        ("yes", ("m",)),
        ("no", ("m",)),
    ]


def test_agents_below_an_agent_become_its_tools() -> None:
    graph = {
        "nodes": [
            graph_node("top", "Agent", {}),
            graph_node("sub", "Agent", {"tools": ["t"]}),
            graph_node("deep", "Agent", {}),
        ],
        "edges": [
            edge("top", "sub", "agentBottom"),
            edge("sub", "deep", "agentBottom"),
            edge("deep", "top", "agentBottom"),
        ],
    }
    components = components_from_graph({"graph": graph}, "", Reporter())
    assert [c.id for c in components] == []  # a ring of tools has no top
    graph["edges"].pop()
    (top,) = components_from_graph({"graph": graph}, "", Reporter())
    (tool,) = top.params["tools"]
    assert (tool["id"], tool["params"]["tools"][0], tool["params"]["tools"][1]["id"]) == ("sub", "t", "deep")


def test_a_malformed_graph_gives_diagnostics() -> None:
    graphs: list[Any] = [3, [], {"nodes": 3}, {"nodes": [1, {}, {"id": "a", "data": 3}], "edges": [1, {"source": {}}]}]
    for graph in graphs:
        assert check_canvas({"graph": graph}, CATALOG)[0] is None


def test_a_large_drawing_takes_linear_time() -> None:
    nodes = [graph_node("begin", "Begin"), *(graph_node(f"m{i}", "Message", {"content": ["x"]}) for i in range(8000))]
    edges = [edge("begin", "m0"), *(edge(f"m{i}", f"m{i + 1}") for i in range(7999))]
    document = {"graph": {"nodes": nodes, "edges": edges}}
    start_s = time.process_time()
    assert len(components_from_graph(document, "", Reporter())) == 8001
    assert time.process_time() - start_s < 3
