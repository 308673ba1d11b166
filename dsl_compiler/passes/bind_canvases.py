"""Compile the canvases that nodes and tools play; what is wrong there is told where they are named."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.diagnostics import Diagnostic, Severity
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.plan import NestedCanvas, Plan, PlanNode
from ragflow_lg.component.spec import CanvasName
from ragflow_lg.dsl.forms import is_file
from ragflow_lg.dsl_compiler.deployment import CanvasSource
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.engine.canvas_call import takes_query

__all__ = ["bind_canvases"]

MAX_DEPTH = 8
"""How many canvases may play each other in a row."""

MAX_CANVASES = 64
"""How many canvases one canvas may play, those that they play among them."""

MAX_TOLD = 20
"""How many findings of a canvas are told where it is named."""


class _Place(Struct, frozen=True):
    """Where a canvas is named."""

    pointer: str
    owner: RawComponent
    reporter: Reporter

    def tell(self, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        self.reporter.report(code, severity, self.pointer, message, hint=hint, component=self.owner)


def bind_canvases(draft: Draft, reporter: Reporter) -> Draft:
    """Give every node and tool that plays a canvas the plan of it."""
    nodes = {
        id_: _bound(draft, node, draft.components[id_], ["obj", "params"], reporter)
        for id_, node in draft.nodes.items()
    }
    return replace(draft, nodes=nodes)


def _bound(draft: Draft, node: PlanNode, owner: RawComponent, inside: list[str], reporter: Reporter) -> PlanNode:
    """Bind a node and its tools. ``inside`` leads from the node's pointer to its params."""
    if node.tools:
        node = replace(node, tools=tuple(_bound(draft, tool, owner, ["params"], reporter) for tool in node.tools))
    if node.spec.plays is None:
        return node
    name = node.spec.plays(node.params)
    if not (name.name or name.path):
        return node  # the component has said so already
    pointer = pointer_of(node.pointer, [*inside, "canvas" if name.name else "path"])
    plan = _plan(draft, name, _Place(pointer, owner, reporter))
    return node if plan is None else replace(node, canvas=NestedCanvas(str(name), plan))


def _plan(draft: Draft, name: CanvasName, place: _Place) -> Plan | None:
    """Find and compile a canvas; None where it cannot be played."""
    try:
        found = draft.deployment.canvas_by_name(name.name) if name.name else draft.deployment.canvas_at_path(name.path)
    except SettingsError as error:
        place.tell("canvas-unknown", str(error), "Name it in the settings, under [canvases], or set path.")
        return None
    if not _is_nested_well(draft, found, place):
        return None
    trail = (*draft.nesting.trail, (found.key, found.label))
    plan, diagnostics = draft.nesting.check(found, replace(draft.nesting, trail=trail))
    _tell_findings(found, diagnostics, place)
    if plan is not None:
        for problem in _misfits(plan):
            place.tell("canvas-unfit", f"The canvas {found.label!r} cannot be played by another one: {problem}")
    return plan


def _is_nested_well(draft: Draft, found: CanvasSource, place: _Place) -> bool:
    """Refuse canvases that play each other without end, and too many of them."""
    trail = draft.nesting.trail
    if found.key in [key for key, _ in trail]:
        path = " → ".join([label for _, label in trail] + [found.label])
        place.tell("canvas-unfit", f"Canvases play each other without end: {path}.", "Take one of them out.")
        return False
    draft.nesting.spent.append(found.key)
    if len(trail) > MAX_DEPTH or len(draft.nesting.spent) > MAX_CANVASES:
        message = f"Canvases play each other more than {MAX_DEPTH} deep, or more than {MAX_CANVASES} altogether."
        place.tell("canvas-unfit", message, "Play fewer of them.")
        return False
    return True


def _tell_findings(found: CanvasSource, diagnostics: Iterable[Diagnostic], place: _Place) -> None:
    """Tell what is wrong with a canvas; what is only remarked there is left out."""
    grave = [d for d in diagnostics if d.severity != "info"]
    for diagnostic in grave[:MAX_TOLD]:
        where = f" line {diagnostic.line}" if diagnostic.line else ""
        who = f" [{diagnostic.title or diagnostic.node}]" if diagnostic.node else ""
        message = f"In the canvas {found.label!r}{where}{who}: {diagnostic.message}"
        place.tell(diagnostic.code, message, diagnostic.hint, diagnostic.severity)


def _misfits(plan: Plan) -> Iterable[str]:
    for node in plan.nodes.values():
        if node.spec.kind == "interrupt":
            yield f"{node.title or node.id!r} asks its user something, and nobody is there to answer."
    if not takes_query(plan) and getattr(plan.nodes[plan.entry].params, "mode", "") == "Webhook":
        yield "it is made for requests of a webhook."
    for field in plan.form:
        if is_file(field.type) and not field.is_optional:
            yield f"its field {field.shown} needs a file."
