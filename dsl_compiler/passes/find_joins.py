"""Find the joins and the nodes that each of them has to watch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow

MAX_WATCHED = 8_000_000
"""Limit on how many nodes and edges all joins look back at in total. Real canvases stay below 1,000."""


def find_joins(draft: Draft, reporter: Reporter) -> Draft:
    """Add a join for every node with several predecessors, except on cycles, where it runs once per arrival.

    Also record which nodes never run at the same time as any other.
    """
    joins: dict[NodeId, JoinRegion] = {}
    alone: set[NodeId] = set()
    budget = MAX_WATCHED
    for flow in draft.flows.values():
        # A region's node is also the entry of its body's flow.
        solitary = flow.order if _takes_turns(draft, flow) else flow.solitary
        alone |= {n for n in solitary if n != flow.entry or n not in draft.regions}
        deciding = sum(1 << flow.position[n] for n in flow.order if _chooses(draft, flow, n) or n in flow.cyclic)
        shared = {node: (node, _predecessors(flow, node)) for node in flow.order}
        for node in sorted(flow.order, key=flow.position.__getitem__):
            if len(flow.predecessors[node]) > 1 and node not in flow.cyclic and budget > 0:
                joins[node] = _region(draft, flow, node, deciding, shared)
                budget -= sum(1 + len(predecessors) for _, predecessors in joins[node].nodes)
    if budget <= 0:
        message = "There are too many nodes between those where branches split and those where they join."
        hint = "Join the branches earlier or split the canvas."
        reporter.report("document-too-large", "error", draft.base, message, hint)
    reports: dict[NodeId, list[NodeId]] = defaultdict(list)
    for join, region in joins.items():
        for node in region.watched:
            reports[node].append(join)
    nodes = {
        id_: replace(node, reports_to=tuple(sorted(reports[id_])), runs_alone=id_ in alone)
        for id_, node in draft.nodes.items()
    }
    return replace(draft, joins=joins, nodes=nodes)


def _takes_turns(draft: Draft, flow: Flow) -> bool:
    """Return whether every node starts at most one other, so that cycles do not matter."""
    for id_ in flow.order:
        node = draft.nodes[id_]
        choices = [route.targets for route in node.routes] or [node.downstream]
        if id_ == flow.entry and id_ in draft.regions:
            choices = [flow.successors[id_]]
        if any(len(set(targets)) > 1 for targets in (*choices, node.on_error.goto, node.exits)):
            return False
    return True


def _chooses(draft: Draft, flow: Flow, node: NodeId) -> bool:
    """Return whether the node chooses among its successors in this flow. The start of a body always runs them all."""
    starts_body = node == flow.entry and node != draft.entry
    return draft.nodes[node].chooses and not starts_body


def _region(
    draft: Draft, flow: Flow, join: NodeId, deciding: int, shared: Mapping[NodeId, tuple[NodeId, tuple[NodeId, ...]]]
) -> JoinRegion:
    if not flow.ancestor_bits[join] & deciding:
        # No node before the join makes a choice: every predecessor arrives, and there are no dead paths.
        return JoinRegion(join, flow.predecessors[join], (), frozenset(flow.predecessors[join]))
    top = flow.dominators[join]
    inside = flow.nodes_between(top, join)
    choosing = {n for n in (top, *inside) if _chooses(draft, flow, n)}
    looping = frozenset(n for n in inside if n in flow.cyclic)
    return JoinRegion(
        join,
        flow.predecessors[join],
        tuple(shared[n] for n in inside),
        frozenset({*choosing, *flow.predecessors[join]}),
        looping,
    )


def _predecessors(flow: Flow, node: NodeId) -> tuple[NodeId, ...]:
    """Return a node's predecessors; for a node on a cycle, the predecessors of the whole cycle outside of it."""
    return flow.external_predecessors[node] if node in flow.cyclic else flow.predecessors[node]
