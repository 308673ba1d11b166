"""Costs: how often a turn may call models."""

from __future__ import annotations

from msgspec import Struct, field

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.analysis.activity import Activity
from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter

MANY_CALLS = 100
"""Number of model calls of a turn, or of one item, from which they are reported."""

MAX_NAMED = 5


class _Calls(Struct):
    fixed: int = 0
    by_item: dict[NodeId, int] = field(default_factory=dict[NodeId, int])
    """The calls for each item, by the region whose number of rounds depends on a list."""


def check_costs(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Report a turn that may call models very often. Retries after errors count, nested canvases do not."""
    calls = _count_scope(canvas, None)
    raw = canvas.draft.components.get(canvas.draft.entry)
    if raw is None or max([calls.fixed, *calls.by_item.values()]) < MANY_CALLS:
        return
    items = [
        f"{count:,} for each item of {canvas.draft.components[owner].title or owner!r}"
        for owner, count in list(calls.by_item.items())[:MAX_NAMED]
    ]
    message = f"A turn may call models about {calls.fixed:,} times" + "".join(f", and {item}" for item in items) + "."
    hint = "Reduce max_rounds, max_retries or maximum_loop_count if this is too expensive."
    reporter.report("many-calls", "info", raw.place(), message, hint)


def _count_scope(canvas: AnalysedCanvas, scope: NodeId | None) -> _Calls:
    """Count the calls of one pass through a scope: those of the most expensive combination of choices."""
    total, weights = _Calls(), dict[NodeId, int]()
    for node in canvas.children.get(scope, ()):
        weight = _count_node(node)
        if node.id in canvas.draft.regions:
            inner = _count_scope(canvas, node.id)
            rules = node.spec.region
            rounds = rules.max_rounds(node.params) if rules is not None else None
            for owner, count in inner.by_item.items():
                total.by_item[owner] = count * (1 if rounds is None else rounds)
            if rounds is None:
                total.by_item[node.id] = inner.fixed
            else:
                weight += inner.fixed * rounds
        if weight:
            weights[node.id] = weight
    activity = canvas.activities.get(scope)
    total.by_item = {owner: count for owner, count in total.by_item.items() if count}
    total.fixed = sum(weights.values()) if activity is None else _most_expensive(activity, weights)
    return total


def _count_node(node: PlanNode) -> int:
    """Return the calls of one run of a node, if its model calls each of its tools once in every round."""
    calls = node.spec.model_calls(node.params) * (1 + sum(_count_node(tool) for tool in node.tools))
    return calls * (1 + node.extra_attempts)


def _most_expensive(activity: Activity, weights: dict[NodeId, int]) -> int:
    """Return the largest sum of the weights of nodes that run together.

    The sums of all combinations are added at the same time: plane ``i`` has bit ``i`` of the sum of every combination.
    """
    table = activity.whole
    if table is None:
        return sum(weights.values())
    planes: list[int] = []
    for node, weight in weights.items():
        mask = table.active.get(node, 0)
        for shift in range(weight.bit_length()):
            if weight >> shift & 1:
                _add(planes, mask, shift)
    best, candidates = 0, table.all
    for shift in reversed(range(len(planes))):
        if candidates & planes[shift]:
            candidates &= planes[shift]
            best |= 1 << shift
    return best


def _add(planes: list[int], carry: int, shift: int) -> None:
    while carry:
        planes.extend([0] * (shift + 1 - len(planes)))
        planes[shift], carry = planes[shift] ^ carry, planes[shift] & carry
        shift += 1
