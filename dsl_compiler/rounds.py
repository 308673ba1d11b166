"""What the rounds of a region share."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.draft import Draft


def nodes_inside(draft: Draft, owner: NodeId) -> Iterator[PlanNode]:
    """Yield the nodes of a region's body, including those of the regions in it."""
    for id_ in draft.regions[owner].body:
        yield draft.nodes[id_]
        if id_ in draft.regions:
            yield from nodes_inside(draft, id_)


def keeps_values(draft: Draft, node: PlanNode) -> bool:
    """Return whether the nodes around a node keep their outputs from one round to the next."""
    owner = draft.nodes.get(node.parent) if node.parent else None
    return owner is not None and owner.spec.region is not None and owner.spec.region.keeps_values


def find_conflict(node: PlanNode, inside: Collection[NodeId | str]) -> str:
    """Return what a node does that makes it impossible to run rounds at the same time, or ``""``."""
    if node.spec.kind == "interrupt":
        return "waits for the user"
    shared = next((r for r in node.spec.writes(node.params) if r.kind == "global" or r.node not in inside), None)
    return f"changes {shared}, which is shared by all rounds" if shared else ""
