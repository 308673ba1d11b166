"""The flow graphs of a draft: the canvas itself, and the body of each region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode, Region
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow

__all__ = ["Children", "children_of", "flows_of", "main_flow", "region_flow", "scopes_of"]

Children = Mapping[NodeId | None, Sequence[PlanNode]]
"""The nodes directly in each body, by its region; those of the canvas itself under None."""


def children_of(draft: Draft) -> Children:
    """Group the nodes by the region that they stand in."""
    found: dict[NodeId | None, list[PlanNode]] = {}
    for node in draft.nodes.values():
        found.setdefault(node.parent, []).append(node)
    return found


def flows_of(draft: Draft) -> dict[NodeId | None, Flow]:
    """Give the flow of the canvas, under None, and of the body of each region."""
    children = children_of(draft)
    flows: dict[NodeId | None, Flow] = {None: Flow(draft.entry, _successors(children, None))} if draft.entry else {}
    for region in draft.regions.values():
        flows[region.owner] = region_flow(region, children)
    return flows


def scopes_of(draft: Draft) -> Iterator[Flow]:
    """Give the flow of the canvas, then of the body of each region."""
    yield from flows_of(draft).values()


def region_flow(region: Region, children: Children) -> Flow:
    """Give the flow of a region's body, from its item node or, where there is none, from the owner."""
    successors = _successors(children, region.owner)
    return Flow(region.entry, successors if region.item else {**successors, region.owner: region.start})


def main_flow(draft: Draft) -> Flow:
    """Give the flow of the canvas itself; a region is one node of it."""
    return Flow(draft.entry, _successors(children_of(draft), None))


def _successors(children: Children, parent: NodeId | None) -> dict[NodeId, tuple[NodeId, ...]]:
    inside = {node.id: node for node in children.get(parent, ())}
    # An edge back to the item node only says that the round is over, as having no successor does.
    entered = {id_ for id_, node in inside.items() if node.spec.kind != "region_item"}
    return {id_: tuple(t for t in node.targets if t in entered) for id_, node in inside.items()}
