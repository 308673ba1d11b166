"""The drawing of a canvas as RAGFlow's editor stores it. Present nodes stay where they are; new ones are put beside."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text

TYPES = {
    "Agent": "agentNode",
    "Begin": "beginNode",
    "Categorize": "categorizeNode",
    "DataOperations": "dataOperationsNode",
    "ExitLoop": "exitLoopNode",
    "Iteration": "iterationNode",
    "IterationItem": "iterationStartNode",
    "ListOperations": "listOperationsNode",
    "Loop": "loopNode",
    "LoopItem": "loopStartNode",
    "Message": "messageNode",
    "Retrieval": "retrievalNode",
    "Switch": "switchNode",
    "VariableAggregator": "variableAggregatorNode",
    "VariableAssigner": "variableAssignerNode",
}
"""The editor's node types; all other components are a ``ragNode``."""

STEP_X, STEP_Y = 260.0, 110.0
"""Distance in pixels between new nodes."""

MAX_COORDINATE = 1e9
"""Further away, in pixels, is no position. Numbers of a document can be larger than any float."""

Position = dict[str, float]


@dataclass
class EditorNode:
    """A component, with what the editor shows of it."""

    id: str
    name: str
    params: dict[str, Any]
    downstream: list[str] = field(default_factory=list[str])
    parent: str = ""
    title: str = ""
    near: str = ""
    """The present node beside which the editor shows a new one."""


def draw_graph(present: Mapping[str, Any], nodes: Sequence[EditorNode]) -> dict[str, Any]:
    """Return the editor's nodes and edges. Notes are kept as they are."""
    old_nodes = {as_text(node.get("id")): node for node in map(as_map, as_list(present.get("nodes")))}
    notes = [dict(node) for node in old_nodes.values() if as_map(node.get("data")).get("label") == "Note"]
    positions = _place(old_nodes, nodes)
    drawn = [_draw_node(node, old_nodes.get(node.id, {}), positions[node.id]) for node in nodes]
    return {"nodes": [*drawn, *notes], "edges": [edge for node in nodes for edge in _draw_edges(node)]}


def _place(old_nodes: Mapping[str, Mapping[str, Any]], nodes: Sequence[EditorNode]) -> dict[str, Position]:
    positions: dict[str, Position] = {}
    beside: dict[str, int] = {}
    for index, node in enumerate(nodes):
        position = as_map(old_nodes.get(node.id, {}).get("position"))
        if position:
            positions[node.id] = {"x": _number(position.get("x")), "y": _number(position.get("y"))}
            continue
        anchor = positions.get(node.near) or _position_of(old_nodes.get(node.near))
        number = beside[node.near] = beside.get(node.near, 0) + 1
        if anchor is None:
            positions[node.id] = {"x": STEP_X * index, "y": 0.0}
        else:
            positions[node.id] = {"x": anchor["x"] + STEP_X / 2, "y": anchor["y"] + STEP_Y * number}
    return positions


def _position_of(node: Mapping[str, Any] | None) -> Position | None:
    position = as_map((node or {}).get("position"))
    return {"x": _number(position.get("x")), "y": _number(position.get("y"))} if position else None


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < MAX_COORDINATE else 0.0


def _draw_node(node: EditorNode, old: Mapping[str, Any], position: Position) -> dict[str, Any]:
    is_first = node.name == "Begin"
    drawn: dict[str, Any] = {
        "data": {"form": _form(node), "label": node.name, "name": node.title or node.id},
        "id": node.id,
        "position": position,
        "sourcePosition": "left" if is_first else "right",
        "targetPosition": "right" if is_first else "left",
        "type": TYPES.get(node.name, "ragNode"),
    }
    if node.parent:
        drawn |= {"parentId": node.parent, "extent": "parent"}
    kept = {key: old[key] for key in ("width", "height", "style", "dragging") if key in old}
    return {**kept, **drawn}


def _form(node: EditorNode) -> dict[str, Any]:
    """Return what the editor stores for the params, and writes them from. It has a list of categories."""
    if node.name != "Categorize":
        return node.params
    form = {key: value for key, value in node.params.items() if key != "category_description"}
    form["items"] = [
        {
            "name": name,
            "description": as_text(category.get("description")),
            "examples": [{"value": example} for example in as_list(category.get("examples"))],
            "uuid": _handle(node, name),
        }
        for name, category in _categories(node)
    ]
    return form


def _categories(node: EditorNode) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, as_map(entry)) for name, entry in as_map(node.params.get("category_description")).items()]


def _handle(node: EditorNode, category: str) -> str:
    """Return the id of the point at which the edges of a category begin."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{node.id}/{category}"))


def _draw_edges(node: EditorNode) -> list[dict[str, Any]]:
    return [
        {
            "id": f"xy-edge__{node.id}{handle}-{target}end",
            "source": node.id,
            "sourceHandle": handle,
            "target": target,
            "targetHandle": "end",
            "type": "buttonEdge",
        }
        for handle, target in _handles(node)
    ]


def _handles(node: EditorNode) -> list[tuple[str, str]]:
    """Return the editor's handle and the target of each edge. Routes have a handle each."""
    if node.name == "Categorize":
        return [
            (_handle(node, name), as_text(to)) for name, entry in _categories(node) for to in as_list(entry.get("to"))
        ]
    if node.name == "Switch":
        conditions = map(as_map, as_list(node.params.get("conditions")))
        cases = [(f"Case {i}", as_text(to)) for i, c in enumerate(conditions, 1) for to in as_list(c.get("to"))]
        return [*cases, *(("end_cpn_ids", as_text(to)) for to in as_list(node.params.get("end_cpn_ids")))]
    return [("start", target) for target in node.downstream]
