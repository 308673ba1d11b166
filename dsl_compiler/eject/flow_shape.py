"""How the nodes of a canvas, or of the body of a region, follow each other in a graph of plain edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan, PlanNode, Region
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.flow import reach


class NotEjectable(Exception):
    """A node has no counterpart in a graph of plain edges."""

    def __init__(self, node: PlanNode, reason: str) -> None:
        self.node = node
        self.reason = reason
        super().__init__(reason)


class FlowShape(Struct, frozen=True):
    """The flow of one scope."""

    nodes: tuple[PlanNode, ...]
    successors: Mapping[NodeId, tuple[NodeId, ...]]
    """The next nodes of each node, in the same scope."""
    waiting: Mapping[NodeId, tuple[NodeId, ...]]
    """The joins that wait for all their predecessors."""
    gated: Mapping[NodeId, JoinRegion]
    """The joins that wait for those predecessors that can still arrive."""
    is_single: bool
    """Whether no two nodes ever run at the same time."""

    def static_edges(self) -> Iterator[tuple[NodeId, NodeId]]:
        """Yield the edges that are always taken, except into nodes that wait for all predecessors."""
        for node in self.nodes:
            if not is_commanding(node) and not node.routes:
                yield from ((node.id, target) for target in self.successors[node.id] if target not in self.waiting)

    def marks_last(self, plan: Plan, node: PlanNode) -> bool:
        """Return whether a node records that it may be the last one of the turn when it has not failed."""
        if node.parent is not None or self.is_single:
            return False
        following = node.downstream if is_commanding(node) and not node.routes else node.targets
        return not forward_targets(plan, node, following)

    def reachable(self, *sources: NodeId) -> set[NodeId]:
        """Return the nodes that can run after some nodes."""
        return _reachable(self.successors, sources)


def is_commanding(node: PlanNode) -> bool:
    """Return whether the function of a node names the next nodes itself, because they depend on an error."""
    return node.on_error.jumps


def forward_targets(plan: Plan, node: PlanNode, targets: Iterable[str]) -> tuple[NodeId, ...]:
    """Return the targets in the same scope; an edge back to the region only ends the round."""
    inside = (NodeId(target) for target in targets if target in plan.nodes)
    return tuple(
        target
        for target in dict.fromkeys(inside)
        if target != node.parent and plan.nodes[target].spec.kind != "region_item" and plan.nodes[target].rank >= 0
    )


def shape_flow(plan: Plan, region: Region | None = None) -> FlowShape:
    """Return the flow of the canvas, or of a region's body without its item node.

    Raises:
        NotEjectable: if a node has no counterpart.
    """
    parent = region.owner if region else None
    nodes = tuple(
        node
        for node in plan.nodes.values()
        if node.parent == parent and node.rank >= 0 and node.spec.kind != "region_item"
    )
    successors: dict[NodeId, tuple[NodeId, ...]] = {}
    for node in nodes:
        successors[node.id] = () if node.spec.kind == "region_exit" else forward_targets(plan, node, node.targets)
        if any(plan.nodes[target].parent != parent for target in successors[node.id]):
            raise NotEjectable(node, "it jumps out of its Loop or Iteration")
    is_single = all(node.runs_alone for node in nodes)
    joins = [node for node in nodes if node.id in plan.joins]
    gates = {join.id: plan.joins[join.id] for join in joins if _waits(plan, successors, join)}
    gated = {
        id_: gate
        for id_, gate in gates.items()
        if gate.nodes or any(plan.nodes[predecessor].chooses for predecessor in gate.predecessors)
    }
    looping = next((plan.nodes[id_] for id_, gate in gates.items() if gate.looping), None)
    if looping is not None:
        raise NotEjectable(looping, "it waits for nodes on a cycle")
    waiting = {id_: gate.predecessors for id_, gate in gates.items() if id_ not in gated}
    return FlowShape(nodes, successors, waiting, gated, is_single)


def _waits(plan: Plan, successors: Mapping[NodeId, tuple[NodeId, ...]], join: PlanNode) -> bool:
    """Return whether a join waits for others; false if exactly one of its predecessors runs in a turn or round."""
    gate = plan.joins[join.id]
    is_alone = all(plan.nodes[id_].runs_alone for id_ in gate.predecessors)
    return not is_alone or not _reachable(successors, gate.predecessors).isdisjoint(gate.predecessors)


def _reachable(successors: Mapping[NodeId, tuple[NodeId, ...]], sources: Iterable[NodeId]) -> set[NodeId]:
    return reach(successors, [target for node in sources for target in successors.get(node, ())])
