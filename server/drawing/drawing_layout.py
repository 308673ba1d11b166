"""Lays out a plan in columns from left to right, using Sugiyama's method.

A node's column is determined by the longest path to it, and its order in the column by the mean position of its
neighbours. Rows are then as straight as the order allows. An edge that spans several columns has a slot in each of
them, so it does not cross any nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Edge, Plan, PlanNode

SWEEPS = 8
"""Number of passes that improve the order and the rows."""

MAX_BENDS = 5_000
"""Maximum number of slots for long edges. If a drawing needs more, long edges are drawn straight."""

NODE_ROWS, BEND_ROWS = 1.0, 0.4
"""Height of a node and of a passing edge, in rows."""


class Box(Struct, frozen=True):
    """A position: the column from the left and the row from the top, both counted from 0."""

    column: int
    row: float


class Layout(Struct, frozen=True):
    """The positions of nodes and edges, in columns and rows."""

    boxes: Mapping[NodeId, Box]
    bends: Mapping[tuple[NodeId, NodeId], tuple[Box, ...]]
    """Positions at which an edge passes the columns between its ends."""
    columns: int
    rows: float
    back: tuple[tuple[NodeId, NodeId], ...]
    """Edges that run against the direction of the flow."""


def visible_nodes(plan: Plan) -> list[PlanNode]:
    """Return the reachable nodes in the order in which a run first visits them."""
    return sorted((node for node in plan.nodes.values() if node.rank >= 0), key=lambda node: node.rank)


def visible_edges(plan: Plan) -> list[Edge]:
    """Return all edges, including a region's entry into its body; parallel edges are merged into one."""
    merged: dict[tuple[NodeId, NodeId], Edge] = {}
    for node in visible_nodes(plan):
        region = plan.regions.get(node.id)
        inner = [Edge(node.id, first) for first in ((region.item,) if region.item else region.start)] if region else []
        for edge in (*inner, *node.edges):
            other = merged.get((edge.source, edge.target))
            label = f"{other.label}, {edge.label}" if other and other.label and edge.label else edge.label
            merged[edge.source, edge.target] = Edge(
                edge.source, edge.target, label, edge.is_conditional and (other is None or other.is_conditional)
            )
    return list(merged.values())


def label_of(node: PlanNode) -> str:
    """Return a node's title, or its id if it has none."""
    return node.title or node.id


def lay_out(plan: Plan) -> Layout:
    """Return the layout for all reachable nodes."""
    nodes = [node.id for node in visible_nodes(plan)]
    edges = [(e.source, e.target) for e in visible_edges(plan)]
    back = _back_edges(nodes, edges)
    forward = [edge for edge in edges if edge not in back]
    column = _columns(nodes, forward)
    grid = _Grid(nodes, forward, column)
    grid.order()
    rows = grid.rows()
    top = min(rows, default=0.0)
    boxes = {node: Box(column[node], rows[index] - top) for index, node in enumerate(nodes)}
    bends = {
        edge: tuple(Box(grid.columns[slot], rows[slot] - top) for slot in slots) for edge, slots in grid.bends.items()
    }
    return Layout(
        boxes,
        bends,
        max(column.values(), default=0) + 1,
        max(rows, default=0.0) - top + 1,
        tuple(e for e in edges if e in back),
    )


def _back_edges(nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]]) -> set[tuple[NodeId, NodeId]]:
    """Return the edges to nodes that a depth-first search is still visiting."""
    successors: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    for source, target in edges:
        successors[source].append(target)
    is_open: dict[NodeId, bool] = {}
    back: set[tuple[NodeId, NodeId]] = set()
    for root in nodes:
        if root in is_open:
            continue
        is_open[root] = True
        stack = [(root, iter(successors[root]))]
        while stack:
            node, following = stack[-1]
            target = next(following, None)
            if target is None:
                is_open[node] = False
                stack.pop()
            elif target not in is_open:
                is_open[target] = True
                stack.append((target, iter(successors[target])))
            elif is_open[target]:
                back.add((node, target))
    return back


def _columns(nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]]) -> dict[NodeId, int]:
    """Return each node's column, which is one to the right of its rightmost predecessor."""
    waiting = dict.fromkeys(nodes, 0)
    following: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    for source, target in edges:
        waiting[target] += 1
        following[source].append(target)
    column = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not waiting[node]]
    for node in ready:  # grows during the loop
        for target in following[node]:
            column[target] = max(column[target], column[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return column


class _Grid:
    """Slots in columns, by number: first the nodes, then the bends of long edges."""

    def __init__(
        self, nodes: Sequence[NodeId], edges: Iterable[tuple[NodeId, NodeId]], column: Mapping[NodeId, int]
    ) -> None:
        number = {node: index for index, node in enumerate(nodes)}
        spans = {edge: range(column[edge[0]] + 1, column[edge[1]]) for edge in edges}
        has_bends = sum(map(len, spans.values())) <= MAX_BENDS
        self.node_count = len(nodes)
        self.columns = [column[node] for node in nodes]
        self.bends: dict[tuple[NodeId, NodeId], list[int]] = {}
        self.before: list[list[int]] = [[] for _ in nodes]
        self.after: list[list[int]] = [[] for _ in nodes]
        for edge, span in spans.items():
            slots = [self._add(crossed) for crossed in span] if has_bends else []
            if slots:
                self.bends[edge] = slots
            path = [number[edge[0]], *slots, number[edge[1]]]
            for left, right in pairwise(path):
                self.after[left].append(right)
                self.before[right].append(left)
        self.members: list[list[int]] = [[] for _ in range(max(self.columns, default=0) + 1)]
        for slot, at in enumerate(self.columns):
            self.members[at].append(slot)

    def _add(self, column: int) -> int:
        self.columns.append(column)
        self.before.append([])
        self.after.append([])
        return len(self.columns) - 1

    def order(self) -> None:
        """Order each column by the mean position of the neighbours, forward and backward in turn."""
        position = [0.0] * len(self.columns)
        for sweep in range(SWEEPS):
            is_forward = sweep % 2 == 0
            neighbours = self.before if is_forward else self.after
            for members in self.members if is_forward else reversed(self.members):
                mean = {p: _mean([position[n] for n in neighbours[p]], position[p]) for p in members}
                if sweep:
                    members.sort(key=mean.__getitem__)
                else:  # initially in the canvas's order
                    members.sort(key=lambda p: (mean[p], p))
                for index, slot in enumerate(members):
                    position[slot] = index - (len(members) - 1) / 2

    def rows(self) -> list[float]:
        """Return every slot's row, which is as close to its neighbours as order and space allow."""
        rows = [0.0] * len(self.columns)
        for sweep in range(SWEEPS):
            is_forward = sweep % 2 == 0
            for members in self.members if is_forward else reversed(self.members):
                near = self.before if is_forward else self.after
                targets = [_mean([rows[n] for n in near[p]], rows[p]) for p in members]
                new_rows = _spread(targets, [self._height(p) for p in members])
                for slot, row in zip(members, new_rows, strict=True):
                    rows[slot] = row
        return rows

    def _height(self, slot: int) -> float:
        return NODE_ROWS if slot < self.node_count else BEND_ROWS


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(targets: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the rows closest to the targets (least squares) that preserve the order and do not overlap."""
    offsets = [0.0]
    for above, below in pairwise(heights):
        offsets.append(offsets[-1] + (above + below) / 2)
    blocks: list[list[float]] = []  # [sum, count]: touching neighbours move together
    for row, offset in zip(targets, offsets, strict=True):
        blocks.append([row - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    bases = [total / count for total, count in blocks for _ in range(int(count))]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]
