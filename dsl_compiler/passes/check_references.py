"""Check that references refer to things that exist and that can have run before."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import ERROR, NEXT, PlanNode
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.diagnostics import Nearest, Reporter
from ragflow_lg.dsl_compiler.draft import Draft, enclosing
from ragflow_lg.dsl_compiler.flow import Flow
from ragflow_lg.dsl_compiler.reference_types import assignment_targets
from ragflow_lg.dsl_compiler.rounds import keeps_values

_ALWAYS = frozenset({ERROR, NEXT, "next", "_created_time", "_elapsed_time"})
"""Outputs of any node."""

_SYSTEM = frozenset({"sys.chat_template_kwargs"})
"""Globals that a request may set."""

EMPTY = "its value is empty"
"""The consequence of most reference problems."""

EARLIER = "its value is that of an earlier round, and empty until there is one"
"""The consequence if the nodes keep their values from one round to the next."""

MAX_LISTED = 12
"""Limit on the number of outputs that a hint lists."""

MAX_PATH = 64
"""Limit on how many parts of a global's name are looked up."""


class _Canvas(Struct, frozen=True, dict=True):
    """Everything that references in a canvas can read."""

    draft: Draft
    flows: Mapping[NodeId | None, Flow]
    """The flows by region, each for the region's body."""
    assigned: frozenset[str]
    """Assignment targets. An assignment may create a global or an output."""
    nodes: Nearest
    globals: Nearest
    outputs: dict[NodeId, tuple[frozenset[str], Nearest, str] | None]
    """For each node: its output names, suggestions for them, and a list for hints; None if any name is valid."""


def check_references(draft: Draft, reporter: Reporter) -> Draft:
    """Warn about references to things that do not exist or cannot have run.

    Such a reference is empty when read. A region that iterates over it fails, just as it does when iterating over text.
    """
    assigned = frozenset(assignment_targets(draft))
    canvas = _Canvas(draft, draft.flows, assigned, Nearest(draft.nodes), Nearest(draft.globals), {})
    for node in draft.nodes.values():
        alternatives = _alternatives(node)
        iterated = node.spec.region.list_reference(node.params) if node.spec.region else None
        for reference, path in node.references:
            problem = _problem(canvas, node, reference)
            if reference is iterated:
                problem = _list_problem(node, problem)
            if problem is None:
                continue
            code, message, hint = problem
            is_expected = code == "reference-excluded" and path[0] in alternatives
            severity = "info" if is_expected else "warning"
            reporter.report(code, severity, draft.components[node.id].param_place(*path), message, hint)
    for owner in draft.regions:
        _check_collected(canvas, draft.nodes[owner], reporter)
    return draft


def _check_collected(canvas: _Canvas, owner: PlanNode, reporter: Reporter) -> None:
    """Report outputs that a region collects from nodes outside it, or from nodes that do not have them."""
    if owner.spec.region is None:
        return
    collects: Mapping[str, Reference] = owner.spec.region.collects(owner.params)
    for name, reference in collects.items():
        read = canvas.draft.nodes.get(NodeId(reference.node))
        problem = None
        if read is None or read.parent == owner.id:
            problem = _problem(canvas, owner, reference)
        elif owner.id not in [region.id for region in enclosing(read, canvas.draft.nodes)]:
            problem = "reference-not-upstream", f"{read.id!r} is not inside {owner.id!r}.", "Name a node inside it."
        if problem is not None:
            code, message, hint = problem
            if read is None:
                message = f"{reference.text!r} refers to a component that does not exist."
            place = canvas.draft.components[owner.id].param_place("outputs", name)
            text = f"The output {name!r} will be a list of empty strings: {message}"
            reporter.report(code, "warning", place, text, hint)


def _alternatives(node: PlanNode) -> set[str | int]:
    """Return the parameters that list several candidates, where one from a branch that did not run is expected."""
    count: dict[str | int, int] = {}
    for reference, path in node.references:
        if reference.kind == "output":
            count[path[0]] = count.get(path[0], 0) + 1
    return {name for name, n in count.items() if n > 1}


def _problem(canvas: _Canvas, node: PlanNode, reference: Reference) -> tuple[str, str, str] | None:
    if reference.kind == "global":
        return _global_problem(canvas, reference)
    if reference.kind == "alias":
        return None
    read = canvas.draft.nodes.get(NodeId(reference.node))
    if read is None:
        message = (
            f"{reference.text!r} refers to a component that does not exist: a text that contains it cannot be "
            "rendered, and a choice among several values skips it."
        )
        return "reference-unknown-node", message, canvas.nodes.hint(reference.node, "")
    if f"{reference.node}@{reference.key}" in canvas.assigned:
        return None
    outputs = _outputs(canvas, read)
    if outputs is not None and reference.key not in outputs[0]:
        _, near, listed = outputs
        message = f"{read.spec.name} {reference.node!r} has no output {reference.key!r}; {EMPTY}."
        return "reference-unknown-output", message, near.hint(reference.key, f"Its outputs: {listed}.")
    return _order_problem(canvas, node, read)


def _list_problem(node: PlanNode, problem: tuple[str, str, str] | None) -> tuple[str, str, str] | None:
    """Return the problem with a reference that a region iterates over; ``problem`` is the one for any reader."""
    if problem is None:
        return None
    code, message, hint = problem
    return code, message.replace(EMPTY, f"it is empty there, and {node.spec.name} fails without a list"), hint


def _outputs(canvas: _Canvas, read: PlanNode) -> tuple[frozenset[str], Nearest, str] | None:
    if read.id not in canvas.outputs:
        names = read.spec.output_names(read.params)
        canvas.outputs[read.id] = None
        if names is not None:
            all_names = [*read.outputs, *names]
            listed = ", ".join(all_names[:MAX_LISTED]) + (", …" if len(all_names) > MAX_LISTED else "")
            canvas.outputs[read.id] = frozenset({*all_names, *_ALWAYS}), Nearest(all_names), listed or "none"
    return canvas.outputs[read.id]


def _global_problem(canvas: _Canvas, reference: Reference) -> tuple[str, str, str] | None:
    parts = reference.key.split(".", MAX_PATH)
    names = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
    if any(name in canvas.draft.globals or name in _SYSTEM or name in canvas.assigned for name in names):
        return None
    hint = canvas.globals.hint(reference.key, "Declare it in the canvas's variables.")
    return "reference-unknown-global", f"{reference.text!r} is not declared; {EMPTY}.", hint


def _order_problem(canvas: _Canvas, node: PlanNode, read: PlanNode) -> tuple[str, str, str] | None:
    if read.id == node.id or read.parent != node.parent:
        return None
    flow = canvas.flows.get(node.parent)
    if flow is None or node.id not in flow.position or read.id not in flow.position:
        return None
    if flow.is_ancestor(read.id, node.id):
        return None
    is_kept = keeps_values(canvas.draft, node)
    if _excludes(canvas.draft, flow, node, read):
        message = f"{read.id!r} and this node are on mutually exclusive branches; {EARLIER if is_kept else EMPTY}."
        return "reference-excluded", message, "Read from a node on this branch, or join the branches first."
    value = EARLIER if is_kept else "the value is undefined or empty"
    message = f"{read.id!r} does not run before this node; {value}."
    return "reference-not-upstream", message, "Draw an edge from it to this node, directly or through other nodes."


def _excludes(draft: Draft, flow: Flow, node: PlanNode, read: PlanNode) -> bool:
    """Return whether a router that takes only one route decides between the two nodes."""
    top = node.id
    while top != flow.entry:
        top = flow.dominators[top]
        router = draft.nodes[top]
        if router.spec.kind != "route" or top in flow.cyclic:
            continue
        routes_to_node = {i for i, r in enumerate(router.routes) for t in r.targets if _leads(flow, t, node.id)}
        routes_to_read = {i for i, r in enumerate(router.routes) for t in r.targets if _leads(flow, t, read.id)}
        if routes_to_node and routes_to_read and not routes_to_node & routes_to_read:
            return True
    return False


def _leads(flow: Flow, start: str, end: NodeId) -> bool:
    return start == end or flow.is_ancestor(start, end)
