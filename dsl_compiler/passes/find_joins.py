"""Find the joins and what each has to watch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow
from ragflow_lg.dsl_compiler.scopes import scopes_of

__all__ = ["find_joins"]

MAX_WATCHED = 8_000_000
"""Most nodes and edges that all joins together look back at. Real canvases are below 1,000."""


def find_joins(draft: Draft, reporter: Reporter) -> Draft:
    """Give every node with several predecessors a gate, except on cycles, where each arrival counts.

    Note also which nodes can never run beside another one.
    """
    joins: dict[NodeId, JoinRegion] = {}
    alone: set[NodeId] = set()
    left = MAX_WATCHED
    for flow in scopes_of(draft):
        # A region's node also stands in the flow of its body, as where that begins.
        alone |= {n for n in flow.solitary if n != flow.entry or n not in draft.regions}
        deciding = _bits(flow, (n for n in flow.order if _chooses(draft, flow, n) or n in flow.cyclic))
        shared = {node: (node, _predecessors(flow, node)) for node in flow.order}
        for node in sorted(flow.order, key=flow.position.__getitem__):
            if len(flow.predecessors[node]) > 1 and node not in flow.cyclic and left > 0:
                joins[node] = _region(draft, flow, node, deciding, shared)
                left -= sum(1 + len(predecessors) for _, predecessors in joins[node].nodes)
    if left <= 0:
        _report_too_large(draft, reporter)
    reports: dict[NodeId, list[NodeId]] = defaultdict(list)
    for join, region in joins.items():
        for watched in region.watched:
            reports[watched].append(join)
    nodes = {
        id_: replace(node, reports_to=tuple(sorted(reports[id_])), runs_alone=id_ in alone)
        for id_, node in draft.nodes.items()
    }
    return replace(draft, joins=joins, nodes=nodes)


def _chooses(draft: Draft, flow: Flow, node: NodeId) -> bool:
    """Whether the node decides within this flow. Where a body begins, it always begins in full."""
    starts_body = node == flow.entry and node != draft.entry
    return draft.nodes[node].chooses and not starts_body


def _bits(flow: Flow, nodes: Iterable[NodeId]) -> int:
    return sum(1 << flow.position[node] for node in nodes)


def _report_too_large(draft: Draft, reporter: Reporter) -> None:
    reporter.report(
        "document-too-large",
        "error",
        draft.base,
        "Too many nodes lie between the places where branches part and where they meet again.",
        hint="Let the branches meet sooner, or split the canvas.",
    )


def _region(
    draft: Draft,
    flow: Flow,
    join: NodeId,
    deciding: int,
    shared: Mapping[NodeId, tuple[NodeId, tuple[NodeId, ...]]],
) -> JoinRegion:
    if not flow.ancestor_bits[join] & deciding:
        # Nothing before the join ever chooses: every predecessor comes, and there is no dead path to look for.
        return JoinRegion(join, flow.predecessors[join], (), frozenset(flow.predecessors[join]))
    top = flow.dominators[join]
    inside = flow.between(top, join)
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
    """The predecessors of a node; for one on a cycle those of the whole cycle, from outside of it."""
    return flow.entering[node] if node in flow.cyclic else flow.predecessors[node]
