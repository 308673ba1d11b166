"""Draws a plan as a Mermaid flowchart."""

from __future__ import annotations

from ragflow_lg.component.plan import Plan
from ragflow_lg.server.drawing.drawing_layout import label_of, visible_edges, visible_nodes

_SHAPES = {"entry": ("([", "])"), "route": ("{{", "}}"), "message": ("[/", "/]")}


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
