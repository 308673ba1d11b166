"""Connect every node to its existing successors."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ragflow_lg.base.diagnostics import ADVICE, Fix
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import Route
from ragflow_lg.dsl_compiler.diagnostics import Place, Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent


def route_edges(draft: Draft, reporter: Reporter) -> Draft:
    """Connect the existing targets of ``downstream``, routes and ``exception_goto``; report missing ones.

    A router follows its routes, never ``downstream``. A missing target is a warning if the edge has another target, and
    an error otherwise. With ``old_values``, only the turn that comes to the end of such an edge fails.
    """
    return replace(draft, nodes={id_: _connect(draft, node, reporter) for id_, node in draft.nodes.items()})


def _connect(draft: Draft, node: PlanNode, reporter: Reporter) -> PlanNode:
    raw = draft.components[node.id]
    on_error = node.on_error
    if on_error.goto:
        place = raw.param_place("exception_goto")
        goto = _existing_targets(draft, reporter, on_error.goto, place, is_needed=False)
        on_error = on_error._replace(goto=goto)
    if node.spec.kind == "route":
        declared = tuple(node.spec.routes(node.params))
        routes = tuple(_connect_route(draft, reporter, raw, route) for route in declared)
        _check_unused(draft, reporter, raw, declared)
        return replace(node, routes=routes, on_error=on_error)
    downstream = _existing_targets(draft, reporter, raw.downstream, raw.place("downstream"))
    missing = "" if downstream else next((target for target in raw.downstream if target not in draft.nodes), "")
    return replace(node, downstream=downstream, missing=missing, on_error=on_error)


def _connect_route(draft: Draft, reporter: Reporter, raw: RawComponent, route: Route) -> Route:
    place = raw.param_place(*route.path)
    targets = _existing_targets(draft, reporter, route.targets, place, what=f"route {route.label!r}")
    return route._replace(targets=targets)


def _check_unused(draft: Draft, reporter: Reporter, raw: RawComponent, routes: Iterable[Route]) -> None:
    """Report missing targets that are only in a router's ``downstream``, since they are probably mistakes."""
    routed = {target for route in routes for target in route.targets}
    for target in raw.downstream:
        if target not in routed and target not in draft.nodes:
            message = f"The edge leads to {target!r}, which does not exist; {raw.name} follows only its routes."
            hint = reporter.nearest("node", draft.nodes).hint(target, "Remove it or use it in a route.")
            reporter.report("target-unknown", "warning", raw.place("downstream"), message, hint, fix=_removal(target))


def _existing_targets(
    draft: Draft, reporter: Reporter, targets: Iterable[str], place: Place, *, is_needed: bool = True, what: str = ""
) -> tuple[NodeId, ...]:
    unique = tuple(dict.fromkeys(targets))
    existing = tuple(NodeId(t) for t in unique if _exists(draft, t))
    has_rest = bool(existing) or not is_needed
    subject = f"The {what}" if what else "The edge"
    known, is_reported = set(existing), False
    for target in unique:
        if target in known:
            continue
        if target in draft.nodes:
            message = f"{subject} leads back to {target!r}, which starts a turn; the edge was ignored."
            hint = "Start a new turn or use a Loop."
            reporter.report("target-unknown", "warning", place, message, hint, fix=_removal(target))
        else:
            is_old = not what and draft.compatibility.old_values
            rest = "; it was ignored" if has_rest else "; a turn that comes there fails" if is_old else ""
            message = f"{subject} leads to {target!r}, which does not exist{rest}."
            hint = reporter.nearest("node", draft.nodes).hint(target, ADVICE["target-unknown"])
            severity = "warning" if has_rest or is_old else "error"
            fix = _removal(target) if has_rest else None
            reporter.report("target-unknown", severity, place, message, hint, fix=fix)
            is_reported = is_reported or not has_rest
    if what and not existing and not is_reported:
        message = f"The {what} has no target."
        reporter.report("route-empty", "error", place, message, "Connect it to a node.")
    return existing


def _removal(target: str) -> Fix:
    return Fix(f"Remove the edge to {target!r}", "remove_items", target)


def _exists(draft: Draft, target: str) -> bool:
    node = draft.nodes.get(NodeId(target))
    return node is not None and node.spec.kind != "entry"
