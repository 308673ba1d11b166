"""A turn of another engine that waits at forms, as an edit after which this engine waits at the same forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from langgraph.types import Command

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import NEXT, Plan, PlanNode
from ragflow_lg.dsl_compiler.langgraph_app.gate import gate_key
from ragflow_lg.dsl_compiler.names import CLOSING_NODE


def wait_at(
    plan: Plan, names: Mapping[NodeId, str], forms: Collection[NodeId], outputs: Mapping[str, Mapping[str, Any]]
) -> Command[Any]:
    """Return the command after which the ``forms`` of a canvas are the next nodes.

    Args:
        plan: The canvas.
        names: Each node's name in the graph.
        forms: Nodes outside of regions.
        outputs: The outputs of the nodes that have run in this turn.
    """
    later = _reachable(plan, forms)
    ran = [plan.nodes[plan.entry]]
    # Some engines do not store what a node chose: then it is one that leads to the forms.
    before = {id_ for id_, node in plan.nodes.items() if node.chooses and not _reachable(plan, [id_]).isdisjoint(forms)}
    known = (before | outputs.keys()) - later - {plan.entry}
    ran += [node for id_, node in plan.nodes.items() if id_ in known]
    updates: list[tuple[str, Any]] = [
        ("outputs", {node.id: dict(outputs[node.id]) for node in ran if node.id in outputs})
    ]
    for node in ran:
        joins = [join for join in node.reports_to if join in plan.joins and plan.nodes[join].parent is None]
        chosen = _chosen(plan, node, forms, outputs.get(node.id, {})) if node.chooses else None
        updates += [(gate_key(join), {node.id: chosen}) for join in joins]
    return Command(update=updates, goto=[*(names[form] for form in forms), CLOSING_NODE])


def _chosen(plan: Plan, node: PlanNode, forms: Iterable[NodeId], outputs: Mapping[str, Any]) -> list[NodeId]:
    """Return the successors that a node chose: as it says, or else those that lead to the forms."""
    said = outputs.get(NEXT)
    if isinstance(said, list) and (chosen := [target for target in node.targets if target in said]):
        return chosen
    return [target for target in node.targets if not _reachable(plan, [target]).isdisjoint(forms)]


def _reachable(plan: Plan, start: Iterable[NodeId]) -> set[NodeId]:
    """Return some nodes and all that can follow them."""
    found, waiting = set(start), list(start)
    while waiting:
        for target in plan.nodes[waiting.pop()].targets:
            if target not in found and target in plan.nodes:
                found.add(target)
                waiting.append(target)
    return found
