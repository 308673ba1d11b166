"""Find cycles of edges."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.scopes import build_flows


def find_cycles(draft: Draft, reporter: Reporter) -> Draft:
    """Record the nodes on cycles. A cycle with an exit is a warning. A cycle without one never ends and is an error."""
    cyclic: set[NodeId] = set()
    for flow in build_flows(draft).values():
        for group in flow.components:
            if group[0] not in flow.cyclic:
                continue
            cyclic.update(group)
            inside = set(group)
            has_exit = any(_may_leave(draft.nodes[n], inside) for n in group)
            path = flow.find_cycle(group)
            first = draft.components[path[0]]
            reporter.report(
                "flow-cycle",
                "warning" if has_exit else "error",
                extend_pointer(first.pointer, ["downstream"]),
                f"The flow has a cycle: {' → '.join(path)}. "
                + ("Joins on it run once per arrival." if has_exit else "No node on it can leave it."),
                hint="Use a Loop instead." if has_exit else "Use a Switch or a Loop there.",
                component=first,
            )
    return replace(draft, cyclic=frozenset(cyclic))


def _may_leave(node: PlanNode, inside: set[NodeId]) -> bool:
    """Return whether a node may leave the cycle: a router with a target outside it, or a form, since it waits."""
    return node.spec.kind == "interrupt" or (node.chooses and any(target not in inside for target in node.targets))
