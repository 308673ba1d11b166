"""Check that rounds configured to run in parallel can do so."""

from __future__ import annotations

from collections.abc import Iterator

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft


def check_parallel(draft: Draft, reporter: Reporter) -> Draft:
    """Report parallel rounds whose body waits for the user or writes a value shared by the rounds."""
    for owner in draft.regions:
        node = draft.nodes[owner]
        if node.spec.region is None or node.spec.region.max_concurrency(node.params) <= 1:
            continue
        inside = {inner.id: inner for inner in _nodes_inside(draft, owner)}
        for inner in inside.values():
            if reason := _conflict(inner, set(inside)):
                reporter.report(
                    "region-parallel",
                    "error",
                    inner.pointer,
                    f"{owner!r} runs its rounds in parallel, but {inner.spec.name} {inner.id!r} {reason}.",
                    hint="Set max_concurrency to 0, or move the node out of the body.",
                    component=draft.components[inner.id],
                )
    return draft


def _nodes_inside(draft: Draft, owner: NodeId) -> Iterator[PlanNode]:
    region = draft.regions[owner]
    for id_ in region.body:
        yield draft.nodes[id_]
        if id_ in draft.regions:
            yield from _nodes_inside(draft, id_)


def _conflict(node: PlanNode, inside: set[NodeId]) -> str:
    if node.spec.kind == "interrupt":
        return "waits for the user"
    shared = next((r for r in node.spec.writes(node.params) if r.kind == "global" or r.node not in inside), None)
    return f"changes {shared}, which is shared by all rounds" if shared else ""
