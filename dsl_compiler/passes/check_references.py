"""Check what references read: does it exist, and can it be there in time?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from dsl_compiler.diagnostics import Reporter, pointer_of
from dsl_compiler.draft import Draft
from dsl_compiler.flow import Flow
from dsl_compiler.scopes import scopes_of
from ragflow_lg.ids import NodeId
from ragflow_lg.plan import ERROR, NEXT, PlanNode
from ragflow_lg.refs import Reference

__all__ = ["check_references"]

_ALWAYS = frozenset({ERROR, NEXT, "next", "_created_time", "_elapsed_time"})
"""Outputs that any node may have."""

_SYSTEM = frozenset({"sys.chat_template_kwargs"})
"""Globals that a request may bring along."""


def check_references(draft: Draft, reporter: Reporter) -> Draft:
    """Report, as warnings, references to what does not exist or cannot have run. They read as empty."""
    flows = list(scopes_of(draft))
    assigned = set(_assigned(draft))
    for node in draft.nodes.values():
        several = _alternatives(node)
        for reference, path in node.references:
            found = _problem(draft, flows, node, reference, assigned)
            if found is None:
                continue
            code, message, hint = found
            is_expected = code == "reference-excluded" and path[0] in several
            reporter.report(
                code,
                "info" if is_expected else "warning",
                pointer_of(draft.components[node.id].params_pointer, path),
                message,
                hint=hint,
                component=draft.components[node.id],
            )
    return draft


def _alternatives(node: PlanNode) -> set[str | int]:
    """Params that name several candidates on purpose: reading a branch that did not run is then no fault."""
    count: dict[str | int, int] = {}
    for reference, path in node.references:
        if reference.kind == "output":
            count[path[0]] = count.get(path[0], 0) + 1
    return {name for name, n in count.items() if n > 1}


def _assigned(draft: Draft) -> Iterator[str]:
    """Targets of assignments: they may create a global or an output."""
    for node in draft.nodes.values():
        for reference in node.spec.writes(node.params):
            yield reference.key if reference.kind == "global" else f"{reference.node}@{reference.key}"


def _problem(
    draft: Draft, flows: Sequence[Flow], node: PlanNode, reference: Reference, assigned: set[str]
) -> tuple[str, str, str] | None:
    if reference.kind == "global":
        return _global_problem(draft, reference, assigned)
    if reference.kind == "alias":
        return None
    read = draft.nodes.get(NodeId(reference.node))
    if read is None:
        near = get_close_matches(reference.node, list(draft.nodes), n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else "The node fails when it reads this."
        return "reference-unknown-node", f"{reference.text!r} names a component that does not exist.", hint
    if f"{reference.node}@{reference.key}" in assigned:
        return None
    names = read.spec.output_names(read.params)
    known = [*read.outputs, *(names or ())]
    if names is not None and reference.key not in known and reference.key not in _ALWAYS:
        near = get_close_matches(reference.key, known, n=2)
        listed = ", ".join(known) or "none"
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Its outputs: {listed}."
        message = f"{read.spec.name} {reference.node!r} has no output {reference.key!r}; it reads as empty."
        return "reference-unknown-output", message, hint
    return _order_problem(draft, flows, node, read)


def _global_problem(draft: Draft, reference: Reference, assigned: set[str]) -> tuple[str, str, str] | None:
    parts = reference.key.split(".")
    names = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
    if names & (draft.globals.keys() | _SYSTEM | assigned):
        return None
    near = get_close_matches(reference.key, list(draft.globals), n=2)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Declare it in the canvas's variables."
    return "reference-unknown-global", f"{reference.text!r} is not declared; it reads as empty.", hint


def _order_problem(draft: Draft, flows: Sequence[Flow], node: PlanNode, read: PlanNode) -> tuple[str, str, str] | None:
    if read.id == node.id or read.parent != node.parent:
        return None
    flow = next((f for f in flows if node.id in f.position and read.id in f.position), None)
    if flow is None or flow.is_ancestor(read.id, node.id):
        return None
    if _excludes(draft, flow, node, read):
        message = f"{read.id!r} lies on a branch that is never taken together with this node; it reads as empty."
        return "reference-excluded", message, "Read a node of this branch, or join the branches first."
    message = f"{read.id!r} does not run before this node; what it reads there depends on chance or is empty."
    return "reference-not-upstream", message, "Draw an edge from it, directly or through others."


def _excludes(draft: Draft, flow: Flow, node: PlanNode, read: PlanNode) -> bool:
    """Whether one router that chooses a single way decides between the two."""
    top = node.id
    while top != flow.entry:
        top = flow.dominators[top]
        router = draft.nodes[top]
        if router.spec.kind != "route" or top in flow.cyclic:
            continue
        ways_here = {i for i, r in enumerate(router.routes) for t in r.targets if _leads(flow, t, node.id)}
        ways_there = {i for i, r in enumerate(router.routes) for t in r.targets if _leads(flow, t, read.id)}
        if ways_here and ways_there and not ways_here & ways_there:
            return True
    return False


def _leads(flow: Flow, start: str, end: NodeId) -> bool:
    return start == end or flow.is_ancestor(start, end)
