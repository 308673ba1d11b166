"""Concurrency: nodes that write the same variable at the same time, and rounds that could run at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.analysis.activity import Activity
from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.rounds import find_conflict, nodes_inside

MAX_WRITERS = 40
"""Maximum number of writers of one variable that are compared with each other."""


def check_writes(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Warn about two nodes that may run at the same time and write the same variable."""
    writers = _find_writers(canvas)
    for (scope, variable), nodes in writers.items():
        activity = canvas.activities.get(scope)
        if activity is None or len(nodes) < 2:
            continue
        for first, second in combinations(list(nodes)[:MAX_WRITERS], 2):
            if _run_together(activity, first, second):
                earlier, later = nodes[first], canvas.draft.components[nodes[second].id]
                name = canvas.draft.components[earlier.id].title or earlier.id
                message = f"This node and {name!r} may run at the same time, and both change {variable}."
                hint = "Connect one to the other, or give each a variable of its own."
                reporter.report("write-race", "warning", later.place(), message, hint)
                break


def check_rounds(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Report Iterations whose rounds call models or services one after another, and what makes them wait."""
    for owner in canvas.draft.regions:
        node = canvas.draft.nodes[owner]
        rules = node.spec.region
        if rules is None or rules.list_reference(node.params) is None or rules.max_concurrency(node.params) > 1:
            continue
        inside = {inner.id: inner for inner in nodes_inside(canvas.draft, owner)}
        if not any(inner.spec.retries for inner in inside.values()):
            continue
        obstacle = _find_obstacle(canvas, inside)
        raw = canvas.draft.components[owner]
        message = "Its rounds call models or services one after another" + (
            f", because {obstacle}." if obstacle else ", although they do not depend on each other."
        )
        hint = (
            "To run them at the same time, remove this dependency and set max_concurrency."
            if obstacle
            else "To run them at the same time, set max_concurrency, for example to 4."
        )
        reporter.report("rounds-in-turn", "info", raw.place(), message, hint)


def _find_writers(canvas: AnalysedCanvas) -> Mapping[tuple[NodeId | None, str], dict[NodeId, PlanNode]]:
    """Return the writers by scope and variable. A region writes what the nodes in its body write.

    The key of a writer is the node of the scope itself; its value is the node that has the assignment.
    """
    writers: dict[tuple[NodeId | None, str], dict[NodeId, PlanNode]] = {}
    for node in canvas.draft.nodes.values():
        for reference in node.spec.writes(node.params):
            standing, scope = node.id, node.parent
            for _ in range(len(canvas.draft.regions) + 1):
                writers.setdefault((scope, str(reference)), {}).setdefault(standing, node)
                if scope is None or scope not in canvas.draft.nodes:
                    break
                standing, scope = scope, canvas.draft.nodes[scope].parent
    return writers


def _run_together(activity: Activity, first: NodeId, second: NodeId) -> bool:
    if not (activity.is_known(first) and activity.is_known(second)):
        return False
    if activity.precedes(first, second) or activity.precedes(second, first):
        return False
    table = activity.table(first, second)
    return table is not None and bool(table.active[first] & table.active[second])


def _find_obstacle(canvas: AnalysedCanvas, inside: Mapping[NodeId, PlanNode]) -> str:
    """Return why the rounds of a region cannot run at the same time, or ``""``."""
    for node in inside.values():
        title = canvas.draft.components[node.id].title or node.id
        if conflict := find_conflict(node, inside):
            return f"{title!r} {conflict}"
        if node.spec.kind == "message":
            return f"{title!r} shows text, which would no longer be in the order of the items"
    return ""
