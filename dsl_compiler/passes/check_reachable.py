"""Tell of nodes that can never run."""

from __future__ import annotations

from dsl_compiler.diagnostics import Reporter
from dsl_compiler.draft import Draft
from dsl_compiler.passes.rank_nodes import UNREACHED

__all__ = ["check_reachable"]


def check_reachable(draft: Draft, reporter: Reporter) -> Draft:
    """Report every node to which no path leads from the entry."""
    for node in draft.nodes.values() if draft.entry else ():
        if node.rank == UNREACHED and node.spec.kind != "entry":
            reporter.report(
                "node-unreachable",
                "warning",
                node.pointer,
                f"No path leads from {draft.entry!r} to {node.id!r}; it never runs.",
                hint="Connect it, or remove it.",
                component=draft.components[node.id],
            )
    return draft
