"""Our canvases in RAGFlow's editor: it can show them, and writes the same components when it saves them."""

from pathlib import Path
from typing import Any

from ragflow_lg.dsl_compiler.editor_graph import TYPES
from tests.architecture.sources import ROOT
from tests.harness.editor_graph import read_canvas, save_params
from tests.harness.rows import each_row

FILES = [
    *sorted((ROOT / "examples").glob("*.json")),
    *sorted((ROOT / "server" / "agents" / "templates").glob("*.json")),
]


@each_row("path", FILES)
def test_saving_in_the_editor_does_not_change_a_canvas(path: Path) -> None:
    dsl = read_canvas(path)
    components, nodes, edges = dsl["components"], dsl["graph"]["nodes"], dsl["graph"]["edges"]
    assert [node["id"] for node in nodes] == list(components)
    for node in nodes:
        component: dict[str, Any] = components[node["id"]]
        name = component["obj"]["component_name"]
        assert (node["type"], node["data"]["label"]) == (TYPES.get(name, "ragNode"), name)
        assert save_params(node, edges) == component["obj"]["params"]
        targets = [edge["target"] for edge in edges if edge["source"] == node["id"]]
        assert sorted(targets) == sorted(component["downstream"])
        assert node.get("parentId") == component.get("parent_id")
        assert {edge["targetHandle"] for edge in edges} == {"end"}
        if name == "Switch":
            cases = enumerate(component["obj"]["params"]["conditions"], 1)
            exits = [(f"Case {number}", target) for number, case in cases for target in case["to"]]
            exits += [("end_cpn_ids", target) for target in component["obj"]["params"]["end_cpn_ids"]]
            assert [(edge["sourceHandle"], edge["target"]) for edge in edges if edge["source"] == node["id"]] == exits
