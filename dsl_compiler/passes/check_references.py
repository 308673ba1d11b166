"""Check what references read: does it exist, and can it be there in time?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import ERROR, NEXT, PlanNode
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow
from ragflow_lg.dsl_compiler.nearest import Nearest
from ragflow_lg.dsl_compiler.scopes import flows_of

__all__ = ["check_references"]

_ALWAYS = frozenset({ERROR, NEXT, "next", "_created_time", "_elapsed_time"})
"""Outputs that any node may have."""

_SYSTEM = frozenset({"sys.chat_template_kwargs"})
"""Globals that a request may bring along."""


EMPTY = "it reads as empty"
"""What follows from most of what is wrong with a reference."""

MAX_LISTED = 12
"""Most outputs that a hint lists."""

MAX_PATH = 64
"""Deepest path of a global that is looked up."""


class _Known(Struct, frozen=True, dict=True):
    """What there is in the canvas, for the checks of all its references."""

    draft: Draft
    flows: dict[NodeId | None, Flow]
    """By the region that they are the body of."""
    assigned: frozenset[str]
    nodes: Nearest
    globals: Nearest
    outputs: dict[NodeId, tuple[frozenset[str], Nearest, str] | None]
    """Of each node that is read: its outputs, for look-ups and for the reader; None if any name may be one."""


def check_references(draft: Draft, reporter: Reporter) -> Draft:
    """Report, as warnings, references to what does not exist or cannot have run.

    They read as empty; a region that goes over one fails, and so it does over a text.
    """
    known = _Known(
        draft, flows_of(draft), frozenset(_assigned(draft)), Nearest(draft.nodes), Nearest(draft.globals), {}
    )
    for node in draft.nodes.values():
        several = _alternatives(node)
        listed = node.spec.region.list_reference(node.params) if node.spec.region else None
        for reference, path in node.references:
            found = _problem(known, node, reference)
            if reference is listed:
                found = _list_problem(known, node, reference, found)
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
    for owner in draft.regions:
        _check_collected(known, draft.nodes[owner], reporter)
    return draft


def _check_collected(known: _Known, owner: PlanNode, reporter: Reporter) -> None:
    """Report what a region gathers from nodes that do not stand inside it, or do not have it."""
    if owner.spec.region is None:
        return
    collects: Mapping[str, Reference] = owner.spec.region.collects(owner.params)
    for name, reference in collects.items():
        read = known.draft.nodes.get(NodeId(reference.node))
        found = None
        if read is None or read.parent == owner.id:
            found = _problem(known, owner, reference)
        elif owner.id not in _around(known.draft, read):
            found = "reference-not-upstream", f"{read.id!r} does not stand inside {owner.id!r}.", "Name a node inside."
        if found is not None:
            code, message, hint = found
            pointer = pointer_of(known.draft.components[owner.id].params_pointer, ["outputs", name])
            text = f"The output {name!r} stays a list of empty texts: {message}"
            component = known.draft.components[owner.id]
            reporter.report(code, "warning", pointer, text, hint=hint, component=component)


def _around(draft: Draft, node: PlanNode) -> Iterator[NodeId]:
    """Give the regions around a node. The nesting is bounded and without circles by now."""
    for _ in draft.regions:
        if node.parent is None or node.parent not in draft.nodes:
            return
        yield node.parent
        node = draft.nodes[node.parent]


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


def _problem(known: _Known, node: PlanNode, reference: Reference) -> tuple[str, str, str] | None:
    if reference.kind == "global":
        return _global_problem(known, reference)
    if reference.kind == "alias":
        return None
    read = known.draft.nodes.get(NodeId(reference.node))
    if read is None:
        message = f"{reference.text!r} names a component that does not exist; the node fails when it reads this."
        return "reference-unknown-node", message, known.nodes.hint(reference.node, "")
    if f"{reference.node}@{reference.key}" in known.assigned:
        return None
    outputs = _outputs(known, read)
    if outputs is not None and reference.key not in outputs[0]:
        _, near, listed = outputs
        message = f"{read.spec.name} {reference.node!r} has no output {reference.key!r}; {EMPTY}."
        return "reference-unknown-output", message, near.hint(reference.key, f"Its outputs: {listed}.")
    return _order_problem(known, node, read)


def _list_problem(
    known: _Known, node: PlanNode, reference: Reference, found: tuple[str, str, str] | None
) -> tuple[str, str, str] | None:
    """Say what follows where a region goes over something that is no list."""
    if found is not None:
        code, message, hint = found
        return code, message.replace(EMPTY, f"it is empty there, and {node.spec.name} fails without a list"), hint
    read = known.draft.nodes.get(NodeId(reference.node))
    field = read.spec.outputs.model_fields.get(reference.key) if read and not reference.path else None
    if read is None or field is None or not _is_text(field.annotation):
        return None
    if f"{reference.node}@{reference.key}" in known.assigned or (rules := node.spec.region) is None:
        return None
    if rules.accepts_single(node.params):
        return None
    message = f"{reference.text!r} is a text; {node.spec.name} goes over a list, and fails without one."
    return "params-invalid", message, f"Let {read.id!r} give a list, or make one of its text before."


def _is_text(annotation: object) -> bool:
    return annotation is str or annotation == str | None


def _outputs(known: _Known, read: PlanNode) -> tuple[frozenset[str], Nearest, str] | None:
    if read.id not in known.outputs:
        names = read.spec.output_names(read.params)
        known.outputs[read.id] = None
        if names is not None:
            all_names = [*read.outputs, *names]
            listed = ", ".join(all_names[:MAX_LISTED]) + (", …" if len(all_names) > MAX_LISTED else "")
            known.outputs[read.id] = frozenset({*all_names, *_ALWAYS}), Nearest(all_names), listed or "none"
    return known.outputs[read.id]


def _global_problem(known: _Known, reference: Reference) -> tuple[str, str, str] | None:
    parts = reference.key.split(".", MAX_PATH)
    names = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
    if any(name in known.draft.globals or name in _SYSTEM or name in known.assigned for name in names):
        return None
    hint = known.globals.hint(reference.key, "Declare it in the canvas's variables.")
    return "reference-unknown-global", f"{reference.text!r} is not declared; {EMPTY}.", hint


def _order_problem(known: _Known, node: PlanNode, read: PlanNode) -> tuple[str, str, str] | None:
    if read.id == node.id or read.parent != node.parent:
        return None
    flow = known.flows.get(node.parent)
    if flow is None or node.id not in flow.position or read.id not in flow.position:
        return None
    if flow.is_ancestor(read.id, node.id):
        return None
    if _excludes(known.draft, flow, node, read):
        message = f"{read.id!r} lies on a branch that is never taken together with this node; {EMPTY}."
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
