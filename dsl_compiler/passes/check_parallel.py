"""Check that rounds which are to run side by side can."""

from __future__ import annotations

from collections.abc import Iterator

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft

__all__ = ["check_parallel"]


def check_parallel(draft: Draft, reporter: Reporter) -> Draft:
    """Refuse to run rounds at the same time where the body waits for the user or writes what the rounds share."""
    for owner in draft.regions:
        node = draft.nodes[owner]
        if node.spec.region is None or node.spec.region.max_concurrency(node.params) <= 1:
            continue
        inside = {inner.id: inner for inner in _inside(draft, owner)}
        for inner in inside.values():
            if reason := _reason(inner, set(inside)):
                reporter.report(
                    "region-parallel",
                    "error",
                    inner.pointer,
                    f"{owner!r} runs its rounds at the same time, but {inner.spec.name} {inner.id!r} {reason}.",
                    hint="Set max_concurrency to 0, or move the node out of the body.",
                    component=draft.components[inner.id],
                )
    return draft


def _inside(draft: Draft, owner: NodeId) -> Iterator[PlanNode]:
    region = draft.regions[owner]
    for id_ in region.body:
        yield draft.nodes[id_]
        if id_ in draft.regions:
            yield from _inside(draft, id_)


def _reason(node: PlanNode, inside: set[NodeId]) -> str:
    if node.spec.kind == "interrupt":
        return "waits for the user"
    shared = next((r for r in node.spec.writes(node.params) if r.kind == "global" or r.node not in inside), None)
    return f"changes {shared}, which they share" if shared else ""
