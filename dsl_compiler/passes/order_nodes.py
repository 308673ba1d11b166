"""Where a turn starts, the order in which it first reaches the nodes, and the cycles that it can take."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, build_flows, group_by_region

UNREACHED = -1
"""Rank of a node that cannot be reached from Begin. Such nodes are not lowered."""

CLASSIC_ENTRY = NodeId("begin")
"""The id that RAGFlow's engine always starts from (``agent/canvas.py``)."""


def find_entry(draft: Draft, reporter: Reporter) -> Draft:
    """Choose the component ``begin``, or else the first one of kind ``entry``. Report any others."""
    entries = [node for node in draft.nodes.values() if node.spec.kind == "entry"]
    if not entries:
        message = "The canvas has no Begin component to start at."
        hint = 'Add a component with id "begin" and component_name "Begin".'
        reporter.report("begin-missing", "error", extend_pointer(draft.base, ["components"]), message, hint)
        return draft
    chosen = next((node for node in entries if node.id == CLASSIC_ENTRY), entries[0])
    for other in entries:
        if other is not chosen:
            message = f"The canvas starts at {chosen.id!r}; this second Begin never runs."
            severity = "error" if chosen.id != CLASSIC_ENTRY else "warning"
            place = draft.components[other.id].place()
            reporter.report("begin-multiple", severity, place, message, "Keep only one Begin component.")
    return replace(draft, entry=chosen.id)


def rank_nodes(draft: Draft, reporter: Reporter) -> Draft:
    """Rank the nodes by breadth-first search from the entry. A region also leads to its body.

    RAGFlow's batches have this order, so it determines which Message is shown first and which node's outputs become the
    turn's outputs.
    """
    children = group_by_region(draft)
    order = [draft.entry] if draft.entry else []
    rank = {id_: index for index, id_ in enumerate(order)}
    for id_ in order:
        body = [n.id for n in children.get(id_, ())]
        for target in (*draft.nodes[id_].targets, *body):
            if target not in rank:
                rank[target] = len(order)
                order.append(NodeId(target))
    nodes = {id_: replace(node, rank=rank.get(id_, UNREACHED)) for id_, node in draft.nodes.items()}
    return replace(draft, nodes=nodes)


def find_cycles(draft: Draft, reporter: Reporter) -> Draft:
    """Record the flows and the nodes on cycles.

    A cycle with an exit is a warning. A cycle without one never ends and is an error.
    """
    cyclic: set[NodeId] = set()
    flows = build_flows(draft)
    for flow in flows.values():
        for group in flow.components:
            if group[0] not in flow.cyclic:
                continue
            cyclic.update(group)
            inside = set(group)
            has_exit = any(_may_leave(draft.nodes[n], inside) for n in group)
            path = flow.find_cycle(group)
            first = draft.components[path[0]]
            message = f"The flow has a cycle: {' → '.join(path)}. " + (
                "Joins on it run once per arrival." if has_exit else "No node on it can leave it."
            )
            hint = "Use a Loop instead." if has_exit else "Use a Switch or a Loop there."
            reporter.report("flow-cycle", "warning" if has_exit else "error", first.place("downstream"), message, hint)
    return replace(draft, flows=flows, cyclic=frozenset(cyclic))


def _may_leave(node: PlanNode, inside: set[NodeId]) -> bool:
    """Return whether a node may leave the cycle: a router with a target outside it, or a form, since it waits."""
    return node.spec.kind == "interrupt" or (node.chooses and any(target not in inside for target in node.targets))
