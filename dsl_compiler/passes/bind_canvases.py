"""Compile the canvases that nodes and tools run, and report their problems at the node or tool."""

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
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.engine.canvas_call import takes_query

MAX_DEPTH = 8
"""Limit on how deeply canvases can be nested."""

MAX_CANVASES = 64
"""Limit on how many canvases one canvas can run, directly or indirectly."""

MAX_REPORTED = 20
"""Maximum number of a nested canvas's diagnostics that are reported where it is named."""


class _Place(Struct, frozen=True):
    """The place where a canvas is named."""

    pointer: str
    owner: RawComponent
    reporter: Reporter

    def report(self, code: str, message: str, hint: str = "", severity: Severity = "error") -> None:
        self.reporter.report(code, severity, self.owner.place_at(self.pointer), message, hint)


def bind_canvases(draft: Draft, reporter: Reporter) -> Draft:
    """Add the nested canvas's plan to every node and tool that runs one."""
    nodes = {id_: _bind_node(draft, node, draft.components[id_], reporter) for id_, node in draft.nodes.items()}
    return replace(draft, nodes=nodes)


def _bind_node(draft: Draft, node: PlanNode, owner: RawComponent, reporter: Reporter) -> PlanNode:
    """Bind a node and its tools."""
    if node.tools:
        node = replace(node, tools=tuple(_bind_node(draft, tool, owner, reporter) for tool in node.tools))
    if node.spec.plays is None:
        return node
    name = node.spec.plays(node.params)
    if not (name.name or name.path):
        return node  # the component itself reports this
    pointer = extend_pointer(node.params_pointer, [name.key or ("canvas" if name.name else "path")])
    plan = _plan(draft, name, _Place(pointer, owner, reporter))
    return node if plan is None else replace(node, canvas=NestedCanvas(str(name), plan))


def _plan(draft: Draft, name: CanvasName, place: _Place) -> Plan | None:
    """Find and compile a canvas. Return None if it cannot be run."""
    try:
        source = draft.deployment.canvas_by_name(name.name) if name.name else draft.deployment.canvas_at_path(name.path)
    except SettingsError as error:
        alternative = ", or set path" if not name.key else ""
        place.report("canvas-unknown", str(error), f"Add it to [canvases] in the settings{alternative}.")
        return None
    if not _may_nest(draft, source, place):
        return None
    trail = (*draft.nesting.trail, (source.key, source.label))
    plan, diagnostics = draft.nesting.check(source, replace(draft.nesting, trail=trail))
    _report_diagnostics(source, diagnostics, place)
    if plan is not None:
        for problem in _misfits(plan):
            place.report("canvas-unfit", f"The canvas {source.label!r} cannot be run by another one: {problem}")
    return plan


def _may_nest(draft: Draft, source: CanvasSource, place: _Place) -> bool:
    """Return whether a canvas may be nested here; report canvases that run each other, and too many canvases."""
    trail = draft.nesting.trail
    if source.key in [key for key, _ in trail]:
        path = " → ".join([label for _, label in trail] + [source.label])
        place.report("canvas-unfit", f"Canvases run each other endlessly: {path}.", "Remove one of them.")
        return False
    draft.nesting.compiled_keys.append(source.key)
    if len(trail) > MAX_DEPTH or len(draft.nesting.compiled_keys) > MAX_CANVASES:
        message = f"Canvases are nested more than {MAX_DEPTH} levels deep, or more than {MAX_CANVASES} run in total."
        place.report("canvas-unfit", message, "Use fewer of them.")
        return False
    return True


def _report_diagnostics(source: CanvasSource, diagnostics: Iterable[Diagnostic], place: _Place) -> None:
    """Report the errors and warnings from a nested canvas."""
    serious = [d for d in diagnostics if d.severity != "info"]
    for diagnostic in serious[:MAX_REPORTED]:
        position = f" line {diagnostic.line}" if diagnostic.line else ""
        node = f" [{diagnostic.title or diagnostic.node}]" if diagnostic.node else ""
        message = f"In the canvas {source.label!r}{position}{node}: {diagnostic.message}"
        place.report(diagnostic.code, message, diagnostic.hint, diagnostic.severity)


def _misfits(plan: Plan) -> Iterable[str]:
    for node in plan.nodes.values():
        if node.spec.kind == "interrupt":
            yield f"{node.title or node.id!r} asks the user for input, but nobody can answer."
    if not takes_query(plan) and getattr(plan.nodes[plan.entry].params, "mode", "") == "Webhook":
        yield "it expects webhook requests."
    for field in plan.form:
        if is_file(field.type) and not field.is_optional:
            yield f"its field {field.display_name} needs a file."
