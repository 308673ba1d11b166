"""Draws a sketch as text: a tree of lines for terminals, or a Mermaid flowchart."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.drawing.arrangement import Direction
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, SketchEdge, SketchNode

_SHAPES = {"entry": ("([", "])"), "route": ("{{", "}}"), "message": ("[/", "/]")}

MAX_LINES = 2_000


def to_text_drawing(sketch: Sketch) -> str:
    """Return a tree with each node below its first predecessor, in which ``⋯`` marks conditional edges.

    ``↪`` marks further edges to a node that is already in the tree.
    """
    nodes = {node.id: node for node in sketch.nodes}
    following: dict[str, list[SketchEdge]] = {}
    for edge in sketch.edges:
        following.setdefault(edge.source, []).append(edge)
    lines: list[str] = []
    placed: set[str] = set()
    stack: list[tuple[SketchEdge, str, bool]] = []
    for root in sketch.nodes:  # the first is Begin; others follow only in a canvas that cannot run
        if root.id in placed or len(lines) >= MAX_LINES:
            continue
        placed.add(root.id)
        lines += _describe(root, "", "", bool(following.get(root.id)))
        _push(stack, following.get(root.id, []), "")
        while stack and len(lines) < MAX_LINES:
            edge, indent, is_last = stack.pop()
            branch = ("└" if is_last else "├") + ("⋯" if edge.is_conditional else "─")
            label = f" {_clean(edge.label)} →" if edge.label else ""
            if edge.target in placed:
                lines.append(f"{indent}{branch}↪{label} {_clean(nodes[edge.target].title)}")
                continue
            placed.add(edge.target)
            inside = indent + ("   " if is_last else "│  ")
            target = nodes[edge.target]
            lines += _describe(target, f"{indent}{branch}▶{label} ", inside, bool(following.get(target.id)))
            _push(stack, following.get(edge.target, []), inside)
    if stack:
        lines.append("… (too large to show completely; draw it as SVG)")
    return "\n".join(lines) + "\n"


def _push(stack: list[tuple[SketchEdge, str, bool]], edges: list[SketchEdge], indent: str) -> None:
    for index, edge in reversed(list(enumerate(edges))):
        stack.append((edge, indent, index == len(edges) - 1))


def _describe(node: SketchNode, start: str, indent: str, has_more: bool) -> list[str]:
    """Return the lines of a node and its tools."""
    mark = f"  [{node.mark}]" if node.mark else ""
    lines = [f"{start}{_clean(node.title)}  ({_clean(node.name)}){mark}"]
    line = "│" if has_more else " "
    return lines + [f"{indent}{line}  {'  ' * tool.level}• {_clean(tool.label)}" for tool in node.tools]


def _clean(text: str) -> str:
    """Replace control characters, which a terminal would execute, with spaces."""
    return "".join(c if c.isprintable() else " " for c in text)[:80]


def to_mermaid(sketch: Sketch, *, direction: Direction = "right") -> str:
    """Return a flowchart with conditional edges dashed, and with boxes around the bodies of loops."""
    names = {node.id: f"n{index}" for index, node in enumerate(sketch.nodes)}
    lines = [f"flowchart {'TB' if direction == 'down' else 'LR'}"]
    children: dict[str, list[SketchNode]] = {}
    for node in sketch.nodes:
        children.setdefault(node.parent if node.parent in names else "", []).append(node)
    pending: list[tuple[int, SketchNode | None]] = [(1, node) for node in reversed(children.get("", []))]
    while pending:
        level, node = pending.pop()
        indent = "    " * level
        if node is None:
            lines.append(f"{indent}end")
            continue
        opening, closing = _SHAPES.get(node.kind, ("[", "]"))
        tools = "".join(f"<br/><small>• {_escape(tool.label)}</small>" for tool in node.tools)
        text = f"{_escape(node.title)}<br/><small>{_escape(node.name)}</small>{tools}"
        lines.append(f'{indent}{names[node.id]}{opening}"{text}"{closing}')
        if inside := children.get(node.id):
            lines.append(f'{indent}subgraph body_{names[node.id]}["{_escape(node.title)}"]')
            pending.append((level, None))
            pending += [(level + 1, child) for child in reversed(inside)]
    for edge in sketch.edges:
        arrow = "-.->" if edge.is_conditional else "-->"
        label = f'|"{_escape(edge.label)}"|' if edge.label else ""
        lines.append(f"    {names[edge.source]} {arrow}{label} {names[edge.target]}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Encode characters that have a meaning in Mermaid or HTML, and replace invisible ones with spaces."""
    visible = (c if c.isprintable() else " " for c in text[:80])
    return "".join(c if c.isalnum() or c in " .,:_-" else f"#{ord(c)};" for c in visible)
