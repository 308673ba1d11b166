"""The flow graphs of a draft: the canvas itself, and the body of each region."""

from __future__ import annotations

from collections.abc import Iterator

from dsl_compiler.draft import Draft
from dsl_compiler.flow import Flow
from ragflow_lg.ids import NodeId
from ragflow_lg.plan import Region

__all__ = ["main_flow", "region_flow", "scopes_of"]


def scopes_of(draft: Draft) -> Iterator[Flow]:
    """Give the flow of the canvas, then of the body of each region."""
    if draft.entry:
        yield main_flow(draft)
    for region in draft.regions.values():
        yield region_flow(draft, region)


def region_flow(draft: Draft, region: Region) -> Flow:
    """Give the flow of a region's body, from its item node or, where there is none, from the owner."""
    successors = _successors(draft, region.owner)
    return Flow(region.entry, successors if region.item else {**successors, region.owner: region.start})


def main_flow(draft: Draft) -> Flow:
    """Give the flow of the canvas itself; a region is one node of it."""
    return Flow(draft.entry, _successors(draft, None))


def _successors(draft: Draft, parent: NodeId | None) -> dict[NodeId, tuple[NodeId, ...]]:
    inside = {id_: node for id_, node in draft.nodes.items() if node.parent == parent}
    # An edge back to the item node only says that the round is over, as having no successor does.
    entered = {id_ for id_, node in inside.items() if node.spec.kind != "region_item"}
    return {id_: tuple(t for t in node.targets if t in entered) for id_, node in inside.items()}
