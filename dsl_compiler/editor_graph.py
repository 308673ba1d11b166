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

NODE_WIDTH, NODE_HEIGHT = 200.0, 80.0
"""The size in pixels of a node for which the document has none."""

MAX_CELLS = 64
"""How much of a drawn node is kept free in each direction, in steps."""

MAX_TRIES = 1_000
"""How many places are tried for a new node."""

MAX_COORDINATE = 1e9
"""Further away, in pixels, is no position. Numbers of a document can be larger than any float."""

Position = dict[str, float]
_Cell = tuple[str, int, int]


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
    positions = _place(old_nodes, nodes, notes)
    drawn = [_draw_node(node, old_nodes.get(node.id, {}), positions[node.id]) for node in nodes]
    return {"nodes": [*drawn, *notes], "edges": [edge for node in nodes for edge in _draw_edges(node)]}


def _place(
    old_nodes: Mapping[str, Mapping[str, Any]], nodes: Sequence[EditorNode], notes: Sequence[Mapping[str, Any]]
) -> dict[str, Position]:
    """Return the positions of the nodes. New ones stand below the node beside which they belong, on no other one."""
    taken: set[_Cell] = set()
    positions: dict[str, Position] = {}
    for note in notes:
        taken |= _cells("", _position_of(note) or {"x": 0.0, "y": 0.0}, note)
    for node in nodes:
        old = old_nodes.get(node.id, {})
        if position := _position_of(old):
            positions[node.id] = position
            taken |= _cells(node.parent, position, old)
    for index, node in enumerate(nodes):
        if node.id in positions:
            continue
        anchor = positions.get(node.near) or _position_of(old_nodes.get(node.near))
        if anchor is None:
            position = {"x": STEP_X * index, "y": 0.0}
        else:
            position = {"x": anchor["x"] + STEP_X / 2, "y": anchor["y"] + STEP_Y}
        for _ in range(MAX_TRIES):
            cells = _cells(node.parent, position, {})
            if not cells & taken:
                break
            position = {"x": position["x"], "y": position["y"] + STEP_Y}
        taken |= _cells(node.parent, position, {})
        positions[node.id] = position
    return positions


def _cells(parent: str, position: Position, node: Mapping[str, Any]) -> set[_Cell]:
    """Return the fields of a grid that a drawn node covers, inside its parent."""
    style = as_map(node.get("style"))
    width = _number(node.get("width") or style.get("width")) or NODE_WIDTH
    height = _number(node.get("height") or style.get("height")) or NODE_HEIGHT
    left, top = int(position["x"] // STEP_X), int(position["y"] // STEP_Y)
    right, bottom = int((position["x"] + width) // STEP_X), int((position["y"] + height) // STEP_Y)
    return {
        (parent, column, row)
        for column in range(left, min(right, left + MAX_CELLS) + 1)
        for row in range(top, min(bottom, top + MAX_CELLS) + 1)
    }


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
