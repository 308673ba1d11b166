"""Determine the body of each Loop and Iteration."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode, Region
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Children, Draft, build_region_flow, enclosing, group_by_region
from ragflow_lg.dsl_compiler.placeholder import is_placeholder


def group_regions(draft: Draft, reporter: Reporter) -> Draft:
    """Build a `Region` from every node of kind ``region`` and the nodes whose parent it is."""
    owners = [node for node in draft.nodes.values() if node.spec.kind == "region"]
    _report_strays(draft, reporter, {node.id for node in owners})
    draft = _with_exits(draft, reporter)
    children = group_by_region(draft)
    return replace(draft, regions={owner.id: _region(draft, owner, children, reporter) for owner in owners})


def _with_exits(draft: Draft, reporter: Reporter) -> Draft:
    """Record where each region's body may jump to outside itself, and report edges into a body."""
    exits: dict[NodeId, dict[NodeId, None]] = {}
    for node in draft.nodes.values():
        around = [region.id for region in enclosing(node, draft.nodes)]
        for target in node.targets:
            if target == node.parent:
                continue  # it ends the round, like an edge back to the item node
            scope = draft.nodes[target].parent
            if target in around:
                message = f"An edge leads back to {target!r}, which contains the node."
                hint = "To end the round, remove the edge; to leave the Loop, use ExitLoop."
                reporter.report("region-invalid", "error", draft.components[node.id].place(), message, hint)
            if scope != node.parent and scope not in (None, *around):
                message = f"An edge leads from outside into the body of {scope!r}, to {target!r}."
                hint = "Connect it to the Loop or Iteration itself."
                reporter.report("region-invalid", "error", draft.components[node.id].place(), message, hint)
            for region in around:
                if region == scope:
                    break
                exits.setdefault(region, {})[target] = None
    return replace(
        draft, nodes={id_: replace(n, exits=tuple(exits[id_])) if id_ in exits else n for id_, n in draft.nodes.items()}
    )


def _region(draft: Draft, owner: PlanNode, children: Children, reporter: Reporter) -> Region:
    inside = children.get(owner.id, ())
    item, *others = [node for node in inside if node.spec.kind == "region_item"] or [None]
    for other in others:
        assert other is not None
        message = f"{owner.spec.name} {owner.id!r} has a second {other.spec.name}, which never starts."
        hint = "Remove it and move its edges to the first one."
        reporter.report("region-invalid", "warning", draft.components[other.id].place(), message, hint)
    body = tuple(node.id for node in inside if node is not item)
    members = set(body)
    if not body:
        message = f"{owner.spec.name} has no body."
        hint = f'Put at least one node inside it ("parent_id": "{owner.id}").'
        reporter.report("region-invalid", "error", draft.components[owner.id].place(), message, hint)
    entered = {target for node in inside if node is not item for target in node.targets}
    start = tuple(t for t in item.targets if t in members) if item else tuple(n for n in body if n not in entered)
    if body and not start:
        message = f"{(item or owner).spec.name} does not lead to any node in the body."
        hint = "Draw an edge from it to the first node in the body."
        reporter.report("region-invalid", "error", draft.components[(item or owner).id].place(), message, hint)
    region = Region(owner.id, item.id if item else None, body, start)
    return replace(region, closers=_closers(draft, region, children)) if start else region


def _closers(draft: Draft, region: Region, children: Children) -> frozenset[NodeId]:
    """Return the nodes that can be the last in a round, if at most one of them is and no other node is then running."""
    flow = build_region_flow(region, children)
    if flow.cyclic:
        return frozenset()
    if len(region.start) == 1 and not any(_splits(draft, draft.nodes[node]) for node in region.body):
        return frozenset(region.body)
    return frozenset(node for node in region.body if node in flow.solitary)


def _splits(draft: Draft, node: PlanNode) -> bool:
    """Return whether the node may lead to several nodes in the body at once."""
    target_lists = [node.downstream, *(route.targets for route in node.routes), node.on_error.goto]
    return any(sum(draft.nodes[NodeId(t)].spec.kind != "region_item" for t in targets) > 1 for targets in target_lists)


def _report_strays(draft: Draft, reporter: Reporter, owners: set[NodeId]) -> None:
    for node in draft.nodes.values():
        is_stray = node.spec.kind in ("region_item", "region_exit") and node.parent not in owners
        parent = draft.nodes.get(node.parent) if node.parent else None
        if parent is not None and is_placeholder(parent.spec):
            continue  # it may represent a region
        if is_stray or (node.parent and node.parent not in owners):
            message = (
                f"{node.spec.name} belongs to {node.parent!r}, which is not a Loop or Iteration."
                if node.parent
                else f"{node.spec.name} is not inside a Loop or Iteration."
            )
            hint = "Set its parent_id to the Loop or Iteration that it belongs to, or remove it."
            reporter.report("region-invalid", "error", draft.components[node.id].place(), message, hint)
