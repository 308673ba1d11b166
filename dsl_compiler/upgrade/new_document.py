"""The DSL document of an upgraded canvas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.dsl_compiler.editor_graph import EditorNode, draw_graph
from ragflow_lg.dsl_compiler.lenient_values import as_map
from ragflow_lg.dsl_compiler.upgrade.new_canvas import NewCanvas

_RUN_STATE = ("history", "memory", "messages", "path", "retrieval")
"""What a stored run left in the old document has no meaning in the new engine."""

_STALE = frozenset(["answer", "components", "embed_id", "graph", "reference", *_RUN_STATE])

_GLOBALS: dict[str, Any] = {
    "sys.conversation_turns": 0,
    "sys.files": [],
    "sys.history": [],
    "sys.query": "",
    "sys.user_id": "",
}


def write_document(new: NewCanvas, old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the DSL document of a canvas. Notes and positions of the old document are kept."""
    variables = {
        name: {"name": name, "type": "string", "value": value, "description": ""}
        for name, value in new.variables.items()
    }
    environment = {f"env.{name}": value for name, value in new.variables.items()}
    document: dict[str, Any] = {key: value for key, value in old.items() if key not in _STALE}
    document |= {key: list[Any]() for key in _RUN_STATE}
    document["globals"] = {**_GLOBALS, **environment, **as_map(old.get("globals"))}
    document["variables"] = {**variables, **as_map(old.get("variables"))}
    document["components"] = {node.id: _write_component(node, new) for node in new.nodes.values()}
    if old.get("graph"):
        document["graph"] = draw_graph(as_map(old["graph"]), list(new.nodes.values()))
    return document


def _write_component(node: EditorNode, new: NewCanvas) -> dict[str, Any]:
    component: dict[str, Any] = {
        "downstream": node.downstream,
        "obj": {"component_name": node.name, "params": node.params},
        "upstream": [other.id for other in new.nodes.values() if node.id in other.downstream],
    }
    return component | ({"parent_id": node.parent} if node.parent else {})
