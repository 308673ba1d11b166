"""Draws a plan as a tree of text lines, for terminals."""

from __future__ import annotations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Edge, Plan
from ragflow_lg.server.drawing.drawing_layout import label_of, visible_edges

MAX_LINES = 2_000


def to_text_drawing(plan: Plan) -> str:
    """Return a tree with each node below its first predecessor, in which ``⋯`` marks conditional edges.

    ``↪`` marks further edges to a node that is already in the tree.
    """
    following: dict[NodeId, list[Edge]] = {}
    for edge in visible_edges(plan):
        following.setdefault(edge.source, []).append(edge)
    lines: list[str] = [_describe(plan, plan.entry)]
    placed = {plan.entry}
    stack: list[tuple[Edge, str, bool]] = []
    _push(stack, following.get(plan.entry, []), "")
    while stack and len(lines) < MAX_LINES:
        edge, indent, is_last = stack.pop()
        branch = ("└" if is_last else "├") + ("⋯" if edge.is_conditional else "─")
        label = f" {_clean(edge.label)} →" if edge.label else ""
        if edge.target in placed:
            lines.append(f"{indent}{branch}↪{label} {_clean(label_of(plan.nodes[edge.target]))}")
            continue
        placed.add(edge.target)
        lines.append(f"{indent}{branch}▶{label} {_describe(plan, edge.target)}")
        _push(stack, following.get(edge.target, []), indent + ("   " if is_last else "│  "))
    if stack:
        lines.append("… (too large to show completely; draw it as SVG)")
    return "\n".join(lines) + "\n"


def _push(stack: list[tuple[Edge, str, bool]], edges: list[Edge], indent: str) -> None:
    for index, edge in reversed(list(enumerate(edges))):
        stack.append((edge, indent, index == len(edges) - 1))


def _describe(plan: Plan, id_: NodeId) -> str:
    node = plan.nodes[id_]
    return f"{_clean(label_of(node))}  ({node.spec.name})"


def _clean(text: str) -> str:
    """Replace control characters, which a terminal would execute, with spaces."""
    return "".join(c if c.isprintable() else " " for c in text)[:80]
