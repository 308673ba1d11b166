"""A draft's flow graphs: one for the canvas and one for each region's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode, Region
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow

Children = Mapping[NodeId | None, Sequence[PlanNode]]
"""The nodes directly inside each region, by region id, with the canvas's own nodes under None."""


def group_by_region(draft: Draft) -> Children:
    """Group the nodes by the region that directly contains them."""
    children: dict[NodeId | None, list[PlanNode]] = {}
    for node in draft.nodes.values():
        children.setdefault(node.parent, []).append(node)
    return children


def build_flows(draft: Draft) -> dict[NodeId | None, Flow]:
    """Build the flow for the canvas, under None, then for each region's body, by region id."""
    children = group_by_region(draft)
    flows: dict[NodeId | None, Flow] = {None: Flow(draft.entry, _successors(children, None))} if draft.entry else {}
    for region in draft.regions.values():
        flows[region.owner] = build_region_flow(region, children)
    return flows


def build_region_flow(region: Region, children: Children) -> Flow:
    """Build the flow for a region's body. It starts at the item node or, if there is none, at the region's owner."""
    successors = _successors(children, region.owner)
    return Flow(region.entry, successors if region.item else {**successors, region.owner: region.start})


def _successors(children: Children, parent: NodeId | None) -> dict[NodeId, tuple[NodeId, ...]]:
    inside = {node.id: node for node in children.get(parent, ())}
    # An edge back to the item node ends the round, just like having no successor.
    enterable = {id_ for id_, node in inside.items() if node.spec.kind != "region_item"}
    return {id_: tuple(t for t in node.targets if t in enterable) for id_, node in inside.items()}
