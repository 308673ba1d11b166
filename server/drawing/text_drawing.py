"""Draws a plan as text: a tree of lines for terminals, or a Mermaid flowchart."""

from __future__ import annotations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Edge, Plan
from ragflow_lg.server.drawing.drawing_layout import label_of, visible_edges, visible_nodes

_SHAPES = {"entry": ("([", "])"), "route": ("{{", "}}"), "message": ("[/", "/]")}

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


def to_mermaid(plan: Plan) -> str:
    """Return a flowchart from left to right, with conditional edges dashed and the bodies of regions in boxes."""
    names = {node.id: f"n{index}" for index, node in enumerate(visible_nodes(plan))}
    lines = ["flowchart LR"]
    for node in visible_nodes(plan):
        opening, closing = _SHAPES.get(node.spec.kind, ("[", "]"))
        text = f"{_escape(label_of(node))}<br/><small>{_escape(node.spec.name)}</small>"
        if node.parent is None:
            lines.append(f'    {names[node.id]}{opening}"{text}"{closing}')
    for region in plan.regions.values():
        if region.owner in names:
            lines.append(f'    subgraph body_{names[region.owner]}["{_escape(label_of(plan.nodes[region.owner]))}"]')
            for inner in (*((region.item,) if region.item else ()), *region.body):
                if inner in names:
                    lines.append(f'        {names[inner]}["{_escape(label_of(plan.nodes[inner]))}"]')
            lines.append("    end")
    for edge in visible_edges(plan):
        arrow = "-.->" if edge.is_conditional else "-->"
        label = f'|"{_escape(edge.label)}"|' if edge.label else ""
        lines.append(f"    {names[edge.source]} {arrow}{label} {names[edge.target]}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Encode characters that have a meaning in Mermaid or HTML, and replace invisible ones with spaces."""
    visible = (c if c.isprintable() else " " for c in text[:80])
    return "".join(c if c.isalnum() or c in " .,:_-" else f"#{ord(c)};" for c in visible)
