"""Find cycles outside of Loops."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.scopes import scopes_of

__all__ = ["find_cycles"]


def find_cycles(draft: Draft, reporter: Reporter) -> Draft:
    """Note the nodes on cycles. A cycle with a way out is told of; one without can never end and is refused."""
    cyclic: set[NodeId] = set()
    for flow in scopes_of(draft):
        for group in flow.components:
            if group[0] not in flow.cyclic:
                continue
            cyclic.update(group)
            inside = set(group)
            has_exit = any(_may_leave(draft.nodes[n], inside) for n in group)
            path = flow.cycle_path(group)
            first = draft.components[path[0]]
            reporter.report(
                "flow-cycle",
                "warning" if has_exit else "error",
                pointer_of(first.pointer, ["downstream"]),
                f"The flow goes round in a cycle: {' → '.join(path)}. "
                + ("Joins inside it run once per arrival." if has_exit else "Nothing on it can ever leave it."),
                hint="Use a Loop in its place." if has_exit else "Put a Switch or a Loop there.",
                component=first,
            )
    return replace(draft, cyclic=frozenset(cyclic))


def _may_leave(node: PlanNode, inside: set[NodeId]) -> bool:
    """A router may take a way out; a form waits, so that each round is the user's wish."""
    return node.spec.kind == "interrupt" or (node.chooses and any(target not in inside for target in node.targets))
