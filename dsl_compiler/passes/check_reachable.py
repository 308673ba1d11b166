"""Report nodes that can never run."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.passes.rank_nodes import UNREACHED
from ragflow_lg.dsl_compiler.scopes import build_flows, group_by_region


def check_reachable(draft: Draft, reporter: Reporter) -> Draft:
    """Report every node that cannot be reached from the entry."""
    children, flows = group_by_region(draft), build_flows(draft)
    round_starts = {
        node.id: region.entry
        for region in draft.regions.values()
        if region.start
        for node in children[region.owner]
        if node.id not in flows[region.owner].position and node.spec.kind != "region_item"
    }
    for node in draft.nodes.values() if draft.entry else ():
        if node.id in round_starts and node.rank != UNREACHED:
            reporter.report(
                "node-unreachable",
                "warning",
                node.pointer,
                f"There is no path from {round_starts[node.id]!r}, where rounds start, to {node.id!r}; it never runs.",
                hint="Connect it or remove it.",
                component=draft.components[node.id],
            )
        if node.rank == UNREACHED and node.spec.kind != "entry":
            reporter.report(
                "node-unreachable",
                "warning",
                node.pointer,
                f"There is no path from {draft.entry!r} to {node.id!r}; it never runs.",
                hint="Connect it or remove it.",
                component=draft.components[node.id],
            )
    return draft
