"""Gather the body of each Loop and Iteration."""

from __future__ import annotations

from dataclasses import replace

from dsl_compiler.diagnostics import Reporter
from dsl_compiler.draft import Draft
from ragflow_lg.ids import NodeId
from ragflow_lg.plan import PlanNode, Region

__all__ = ["group_regions"]


def group_regions(draft: Draft, reporter: Reporter) -> Draft:
    """Make a `Region` of every node of kind ``region`` and the nodes whose parent it is."""
    owners = [node for node in draft.nodes.values() if node.spec.kind == "region"]
    _report_strays(draft, reporter, {node.id for node in owners})
    return replace(draft, regions={owner.id: _region(draft, owner, reporter) for owner in owners})


def _region(draft: Draft, owner: PlanNode, reporter: Reporter) -> Region:
    inside = [node for node in draft.nodes.values() if node.parent == owner.id]
    item = next((node for node in inside if node.spec.kind == "region_item"), None)
    body = tuple(node.id for node in inside if node is not item)
    if not body:
        reporter.report(
            "region-invalid",
            "error",
            owner.pointer,
            f"{owner.spec.name} has no body.",
            hint=f'Put at least one node inside it ("parent_id": "{owner.id}").',
            component=draft.components[owner.id],
        )
    entered = {target for node in inside if node is not item for target in node.targets}
    start = tuple(t for t in item.targets if t in body) if item else tuple(n for n in body if n not in entered)
    return Region(owner.id, item.id if item else None, body, start)


def _report_strays(draft: Draft, reporter: Reporter, owners: set[NodeId]) -> None:
    for node in draft.nodes.values():
        is_stray = node.spec.kind in ("region_item", "region_exit") and node.parent not in owners
        if is_stray or (node.parent and node.parent not in owners):
            reporter.report(
                "region-invalid",
                "error",
                node.pointer,
                f"{node.spec.name} belongs to {node.parent!r}, which is no Loop or Iteration."
                if node.parent
                else f"{node.spec.name} stands outside of any Loop or Iteration.",
                hint="Set its parent_id to the Loop or Iteration that it belongs to, or remove it.",
                component=draft.components[node.id],
            )
