"""Placing the nodes of a plan: ranks by longest path, order by neighbours, left to right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Edge, Plan, PlanNode

__all__ = ["Box", "Layout", "drawn_edges", "drawn_nodes", "label_of", "lay_out"]

SWEEPS = 8
"""How often the order within the columns is improved."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node stands: its column from the left and its row from the top."""

    column: int
    row: float


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing in abstract units."""

    boxes: Mapping[NodeId, Box]
    columns: int
    rows: float
    back: frozenset[tuple[NodeId, NodeId]]
    """Edges that lead back, against the flow."""


def drawn_nodes(plan: Plan) -> list[PlanNode]:
    """Give the nodes that can run, in the order a run first meets them."""
    return sorted((node for node in plan.nodes.values() if node.rank >= 0), key=lambda node: node.rank)


def drawn_edges(plan: Plan) -> list[Edge]:
    """Give all edges, a region's entry into its body included; several ways to one target are one edge."""
    merged: dict[tuple[NodeId, NodeId], Edge] = {}
    for node in drawn_nodes(plan):
        region = plan.regions.get(node.id)
        inner = [Edge(node.id, first) for first in ((region.item,) if region.item else region.start)] if region else []
        for edge in (*inner, *node.edges):
            held = merged.get((edge.source, edge.target))
            label = f"{held.label}, {edge.label}" if held and held.label and edge.label else edge.label
            merged[edge.source, edge.target] = Edge(edge.source, edge.target, label, edge.is_conditional)
    return list(merged.values())


def label_of(node: PlanNode) -> str:
    """Give the name a person knows a node by."""
    return node.title or node.id


def lay_out(plan: Plan) -> Layout:
    """Place all nodes."""
    nodes = [node.id for node in drawn_nodes(plan)]
    edges = [(e.source, e.target) for e in drawn_edges(plan)]
    back = _back_edges(nodes, edges)
    forward = [edge for edge in edges if edge not in back]
    column = _columns(nodes, forward)
    rows = _rows(nodes, forward, column)
    height = max(rows.values(), default=0) + 1
    boxes = {node: Box(column[node], rows[node]) for node in nodes}
    return Layout(boxes, max(column.values(), default=0) + 1, height, frozenset(back))


def _back_edges(nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]]) -> set[tuple[NodeId, NodeId]]:
    """Find edges to a node that is still being visited, depth first."""
    successors: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    for source, target in edges:
        successors[source].append(target)
    state: dict[NodeId, str] = {}
    back: set[tuple[NodeId, NodeId]] = set()
    for root in nodes:
        if root in state:
            continue
        state[root] = "open"
        stack = [(root, iter(successors[root]))]
        while stack:
            node, following = stack[-1]
            target = next(following, None)
            if target is None:
                state[node] = "done"
                stack.pop()
            elif state.get(target) == "open":
                back.add((node, target))
            elif target not in state:
                state[target] = "open"
                stack.append((target, iter(successors[target])))
    return back


def _columns(nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]]) -> dict[NodeId, int]:
    """Put each node one column behind the last of its predecessors."""
    waiting = dict.fromkeys(nodes, 0)
    following: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    for source, target in edges:
        waiting[target] += 1
        following[source].append(target)
    column = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not waiting[node]]
    for node in ready:
        for target in following[node]:
            column[target] = max(column[target], column[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return column


def _rows(
    nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]], column: Mapping[NodeId, int]
) -> dict[NodeId, float]:
    """Order each column by the mean row of the neighbours, to and fro; then centre the columns."""
    by_column: dict[int, list[NodeId]] = {}
    for node in nodes:
        by_column.setdefault(column[node], []).append(node)
    before: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    after: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    row = {node: float(i) for members in by_column.values() for i, node in enumerate(members)}
    for sweep in range(SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for index in sorted(by_column, reverse=sweep % 2 == 1):
            members = by_column[index]
            mean = {n: sum(row[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else row[n] for n in members}
            members.sort(key=mean.__getitem__)
            row.update({node: float(i) for i, node in enumerate(members)})
    tallest = max(map(len, by_column.values()), default=1)
    for members in by_column.values():
        shift = (tallest - len(members)) / 2
        row.update({node: i + shift for i, node in enumerate(members)})
    return row
