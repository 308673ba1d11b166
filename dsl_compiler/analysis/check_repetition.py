"""Ends: Loops that nothing ends early, effects that repeat, and failures that end a turn."""

from __future__ import annotations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import STOPS, PlanNode
from ragflow_lg.component.spec import OnceParams
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.rounds import nodes_inside

MAX_NAMED = 5


def check_loops(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Warn about Loops whose conditions cannot become true, because no node changes what they test."""
    for owner in canvas.draft.regions:
        node = canvas.draft.nodes[owner]
        tested = list(node.spec.region.tests(node.params)) if node.spec.region else []
        inside = {inner.id: inner for inner in nodes_inside(canvas.draft, owner)}
        if not tested or any(_may_leave(inner) for inner in inside.values()):
            continue
        written = {(r.node, r.key) for inner in inside.values() for r in inner.spec.writes(inner.params)}
        if any(_may_change(reference, owner, inside, written) for reference in tested):
            continue
        names = ", ".join(f"{r.key!r}" for r in tested[:MAX_NAMED])
        rounds = node.spec.region.max_rounds(node.params) if node.spec.region else None
        raw = canvas.draft.components[owner]
        message = f"Nothing in the body changes {names}, so the {node.spec.name} ends only after {rounds} rounds."
        hint = "Change it with a VariableAssigner in the body, or use ExitLoop."
        reporter.report("loop-without-exit", "warning", raw.place(), message, hint)


def check_effects(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Report nodes with an effect outside the run that a region or a cycle may repeat."""
    for node in canvas.draft.nodes.values():
        if not _has_effect(node):
            continue
        raw = canvas.draft.components[node.id]
        around = canvas.draft.nodes.get(node.parent) if node.parent else None
        if around is not None:
            title = canvas.draft.components[around.id].title or around.id
            message = f"{node.spec.name} has an effect outside the run, in each round of {title!r}."
        elif node.id in canvas.draft.cyclic:
            message = f"{node.spec.name} has an effect outside the run, each time that the flow comes round."
        else:
            continue
        reporter.report("effect-repeated", "info", raw.place(), message)


def check_failures(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Report, once, the nodes that call services and whose failure ends the turn."""
    nodes = [
        node
        for node in canvas.draft.nodes.values()
        if node.spec.tool is not None and node.spec.tool.service is not None and node.on_error == STOPS
    ]
    if not nodes:
        return
    titles = [canvas.draft.components[node.id].title or node.id for node in nodes]
    named = ", ".join(titles[:MAX_NAMED]) + (f" and {len(titles) - MAX_NAMED} more" if len(titles) > MAX_NAMED else "")
    raw = canvas.draft.components[nodes[0].id]
    message = f"The turn fails if a service does not answer: {named}."
    hint = "Set exception_method, with a default value or a node to go on with."
    reporter.report("failure-unhandled", "info", raw.param_place("exception_method"), message, hint)


def _may_leave(node: PlanNode) -> bool:
    return node.spec.kind in ("region_exit", "interrupt") or bool(node.exits)


def _may_change(
    reference: Reference, owner: NodeId, inside: dict[NodeId, PlanNode], written: set[tuple[str, str]]
) -> bool:
    """Return whether a round can change a value: one of its nodes has it as an output, or assigns it."""
    if reference.kind == "global" and reference.key.startswith("sys."):
        return True
    node = owner if reference.kind == "alias" else reference.node
    return reference.node in inside or (node, reference.key) in written


def _has_effect(node: PlanNode) -> bool:
    chosen = node.params.once_only if isinstance(node.params, OnceParams) else None
    return chosen is True or (chosen is None and node.spec.effects == "writes")
