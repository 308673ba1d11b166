"""Give every node the successors that exist."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import Route
from ragflow_lg.dsl_compiler.diagnostics import Reporter, pointer_of
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent

__all__ = ["route_edges"]


def route_edges(draft: Draft, reporter: Reporter) -> Draft:
    """Keep existing targets of ``downstream``, of routes and of ``exception_goto``; report the others.

    A router follows its routes, never ``downstream``. A missing target is a
    warning while the way has another target, and an error when nothing is left.
    """
    return replace(draft, nodes={id_: _routed(draft, node, reporter) for id_, node in draft.nodes.items()})


def _routed(draft: Draft, node: PlanNode, reporter: Reporter) -> PlanNode:
    raw = draft.components[node.id]
    goto = _existing(
        draft, reporter, raw, node.on_error.goto, pointer_of(raw.params_pointer, ["exception_goto"]), is_needed=False
    )
    on_error = node.on_error._replace(goto=goto)
    if node.spec.kind == "route":
        declared = tuple(node.spec.routes(node.params))
        routes = tuple(_route(draft, reporter, raw, route) for route in declared)
        _check_unused(draft, reporter, raw, declared)
        return replace(node, routes=routes, on_error=on_error)
    downstream = _existing(draft, reporter, raw, raw.downstream, pointer_of(raw.pointer, ["downstream"]))
    return replace(node, downstream=downstream, on_error=on_error)


def _route(draft: Draft, reporter: Reporter, raw: RawComponent, route: Route) -> Route:
    pointer = pointer_of(raw.params_pointer, route.path)
    targets = _existing(draft, reporter, raw, route.targets, pointer, what=f"route {route.label!r}")
    return route._replace(targets=targets)


def _check_unused(draft: Draft, reporter: Reporter, raw: RawComponent, routes: Iterable[Route]) -> None:
    """Tell of what ``downstream`` of a router names and nothing else: nobody goes there, but it was meant."""
    told = {target for route in routes for target in route.targets}
    for target in raw.downstream:
        if target not in told and target not in draft.nodes:
            reporter.report(
                "target-unknown",
                "warning",
                pointer_of(raw.pointer, ["downstream"]),
                f"There is no component {target!r}, to which the edge leads; {raw.name} follows its routes.",
                hint="Remove it, or name it in a route.",
                component=raw,
            )


def _existing(
    draft: Draft,
    reporter: Reporter,
    raw: RawComponent,
    targets: Iterable[str],
    pointer: str,
    *,
    is_needed: bool = True,
    what: str = "",
) -> tuple[NodeId, ...]:
    wanted = tuple(dict.fromkeys(targets))
    kept = tuple(NodeId(t) for t in wanted if _exists(draft, t))
    existing = set(kept)
    has_rest = bool(kept) or not is_needed
    where = f"the {what}" if what else "the edge"
    for target in wanted:
        if target in existing:
            continue
        if target in draft.nodes:
            reporter.report(
                "target-unknown",
                "warning",
                pointer,
                f"{where.capitalize()} leads back to {target!r}, which begins a turn; it was left out.",
                hint="Start a new turn, or use a Loop.",
                component=raw,
            )
        else:
            reporter.report(
                "target-unknown",
                "warning" if has_rest else "error",
                pointer,
                f"There is no component {target!r}, to which {where} leads{'; it was left out' if has_rest else ''}.",
                component=raw,
            )
    if what and not kept:
        reporter.report(
            "route-empty", "error", pointer, f"The {what} has no target.", hint="Connect it to a node.", component=raw
        )
    return kept


def _exists(draft: Draft, target: str) -> bool:
    node = draft.nodes.get(NodeId(target))
    return node is not None and node.spec.kind != "entry"
