"""Arranges a sketch in pixels: boxes, the boxes that contain others, and the curves of the edges.

Nodes stand where the editor shows them, or in columns along the flow: each one after its predecessors. The nodes in a
container are laid out on their own, and it is one box on the level above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, SketchEdge, SketchNode
from ragflow_lg.dsl_compiler.drawing.text_size import shorten_text, text_width, wrap_text

Direction = Literal["right", "down"]
Point = tuple[float, float]
Curve = tuple[Point, Point, Point, Point]
"""The start, the two bends and the end."""

MIN_WIDTH, MAX_WIDTH = 160.0, 280.0
HEAD, LINE_HEIGHT, CHIP_HEIGHT = 56.0, 17.0, 20.0
"""Height of a node with one line of title, of each further line, and of each tool. All sizes are in pixels."""
TITLE_SIZE, KIND_SIZE, LABEL_SIZE, CHIP_SIZE = 14.0, 12.5, 12.0, 12.0
ICON_SIZE, ICON_AT, TEXT_AT, INDENT = 30.0, 13.0, 54.0, 18.0
"""The square with a node's icon, its distance from two edges, and that of texts from the left and the right edge."""
MAX_TITLE_LINES = 2
BOLD = 1.08
"""How much wider titles are than their estimated width."""

MARGIN, PADDING, BAR = 28.0, 18.0, 44.0
"""Around the drawing, around the nodes inside a container, and the height of a container's bar with its title."""
MIN_GAP, MAX_GAP, SPACE = 56.0, 190.0, 32.0
"""Between two columns, which labels widen, and between two nodes of a column."""
MAX_LABEL = MAX_GAP - 30
APART, MAX_TURN = 16.0, 110.0
"""Between a node and one that it would cover, and from an edge's end to where it turns against the flow."""
LABEL_AT = 0.85
"""Where an edge has its label: nearer to its target, where the edges of a node have parted."""


class Box(Struct, frozen=True):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


class Wire(Struct, frozen=True):
    """An edge as a curve, and its label with the middle of it."""

    edge: SketchEdge
    path: str
    label: str
    label_x: float
    label_y: float


class Arrangement(Struct, frozen=True):
    """A drawing's boxes and curves, in pixels."""

    boxes: Mapping[str, Box]
    """By the id of the node, containers included."""
    wires: Sequence[Wire]
    width: float
    height: float


def title_lines(node: SketchNode, width: float) -> tuple[str, ...]:
    """Return the lines of a node's title."""
    return wrap_text(node.title, width - TEXT_AT - INDENT, TITLE_SIZE, MAX_TITLE_LINES)


def node_size(node: SketchNode) -> tuple[float, float]:
    """Return the width and height of a node that contains no others."""
    widest = max(
        [
            text_width(node.title, TITLE_SIZE) * BOLD,
            text_width(node.name, KIND_SIZE),
            *(text_width(tool.label, CHIP_SIZE) + 14 * (tool.level + 1) + 8 for tool in node.tools),
        ]
    )
    width = min(MAX_WIDTH, max(MIN_WIDTH, widest + TEXT_AT + INDENT))
    extra_lines = len(title_lines(node, width)) - 1
    chips = len(node.tools) * CHIP_HEIGHT + 8 if node.tools else 0.0
    return width, HEAD + extra_lines * LINE_HEIGHT + chips


def arrange(sketch: Sketch, direction: Direction = "right") -> Arrangement:
    """Return the arrangement of a sketch in columns, with the flow to the right or down."""
    containers, paths = sketch.containers, _paths(sketch)
    longest = max((text_width(edge.label, LABEL_SIZE) for edge in sketch.edges), default=0.0)
    gap = MIN_GAP if direction == "down" else min(MAX_GAP, max(MIN_GAP, longest + 34))
    sizes = {node.id: node_size(node) for node in sketch.nodes}
    edges = _edges_by_level(sketch, paths)
    corners: dict[str, tuple[float, float]] = {}
    for level in [*_innermost_first(paths, containers), ""]:
        inside = [node.id for node in sketch.nodes if (node.parent if node.parent in containers else "") == level]
        places, width, height = _lay_out(inside, edges.get(level, ()), sizes, direction, gap)
        corners.update(places)
        if level:
            sizes[level] = max(sizes[level][0], width + PADDING * 2), height + PADDING * 2 + BAR
    boxes: dict[str, Box] = {}
    for node in sorted(sketch.nodes, key=lambda node: len(paths[node.id])):
        above = boxes.get(node.parent)
        x, y = (above.x + PADDING, above.y + BAR + PADDING) if above else (0.0, 0.0)
        boxes[node.id] = Box(x + corners[node.id][0], y + corners[node.id][1], *sizes[node.id])
    return _draw(sketch, paths, boxes, direction)


def _innermost_first(paths: Mapping[str, Sequence[str]], containers: Iterable[str]) -> list[str]:
    return sorted(containers, key=lambda id_: -len(paths[id_]))


def _paths(sketch: Sketch) -> Mapping[str, Sequence[str]]:
    """Return for each node its containers from the outermost one, and the node."""
    parents, paths = sketch.parents, dict[str, Sequence[str]]()
    for id_ in parents:
        path = [id_]
        while (parent := parents[path[-1]]) in parents:
            path.append(parent)
        paths[id_] = path[::-1]
    return paths


def _edges_by_level(sketch: Sketch, paths: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return by container the edges among its nodes, or between nodes inside of them."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for edge in sketch.edges:
        level = ""
        for source, target in zip(paths[edge.source], paths[edge.target], strict=False):
            if source != target:
                found.setdefault(level, {})[source, target] = None
                break
            level = source
    return {level: list(edges) for level, edges in found.items()}


def _lay_out(
    ids: Sequence[str],
    edges: Sequence[tuple[str, str]],
    sizes: Mapping[str, tuple[float, float]],
    direction: Direction,
    gap: float,
) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Return the corner of each node on a level, and the width and height of the level."""
    along, across = (1, 0) if direction == "down" else (0, 1)
    columns = _columns(ids, edges)
    lengths = [sum(sizes[id_][across] + SPACE for id_ in column) - SPACE for column in columns]
    longest, start = max(lengths, default=0.0), 0.0
    places: dict[str, tuple[float, float]] = {}
    for column, length in zip(columns, lengths, strict=True):
        at = (longest - length) / 2
        for id_ in column:
            places[id_] = (at, start) if direction == "down" else (start, at)
            at += sizes[id_][across] + SPACE
        start += max(sizes[id_][along] for id_ in column) + gap
    total = max(start - gap, 0.0)
    return (places, longest, total) if direction == "down" else (places, total, longest)


def _columns(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the nodes by the longest path to them, each column in the order of the predecessors."""
    order = {id_: index for index, id_ in enumerate(_visit(ids, edges))}
    before: dict[str, list[str]] = {id_: [] for id_ in ids}
    for source, target in edges:
        if order[source] < order[target]:  # others close a cycle
            before[target].append(source)
    ranks: dict[str, int] = {}
    for id_ in order:
        ranks[id_] = max((ranks[other] + 1 for other in before[id_]), default=0)
    columns: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for id_ in ids:
        columns[ranks[id_]].append(id_)
    place: dict[str, float] = {}
    for column in columns:
        column.sort(key=lambda id_: _mean(place[other] for other in before[id_]))
        place.update({id_: index - (len(column) - 1) / 2 for index, id_ in enumerate(column)})
    return columns


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0


def _visit(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """Return the nodes so that each stands before its successors, except for those that close a cycle."""
    following: dict[str, list[str]] = {id_: [] for id_ in ids}
    for source, target in edges:
        following[source].append(target)
    seen: set[str] = set()
    left: list[str] = []
    for root in ids:
        stack = [] if root in seen else [(root, iter(following[root]))]
        seen.add(root)
        while stack:
            target = next((id_ for id_ in stack[-1][1] if id_ not in seen), None)
            if target is None:
                left.append(stack.pop()[0])
            else:
                seen.add(target)
                stack.append((target, iter(following[target])))
    return left[::-1]


def arrange_as_in_editor(sketch: Sketch) -> Arrangement:
    """Return the arrangement with the positions that the editor stored. None covers another node."""
    paths, boxes = _paths(sketch), dict[str, Box]()
    for node in sketch.nodes:
        x, y = (sum(sketch.positions[id_][axis] for id_ in paths[node.id]) for axis in (0, 1))
        boxes[node.id] = Box(x, y, *node_size(node))
    for level in [*_innermost_first(paths, sketch.containers), ""]:
        ids = [node.id for node in sketch.nodes if (node.parent if node.parent in sketch.containers else "") == level]
        _separate(ids, boxes, paths)
        if level:
            boxes[level] = _surround(boxes[level], [boxes[id_] for id_ in ids])
    return _draw(sketch, paths, boxes, "right")


def _surround(own: Box, inside: Sequence[Box]) -> Box:
    """Return the box of a container with the nodes that it contains."""
    left, top = min(own.x, *(b.x - PADDING for b in inside)), min(own.y, *(b.y - BAR - PADDING for b in inside))
    right = max(own.x + own.width, *(b.x + b.width + PADDING for b in inside))
    bottom = max(own.y + BAR, *(b.y + b.height + PADDING for b in inside))
    return Box(left, top, right - left, bottom - top)


def _separate(ids: Sequence[str], boxes: dict[str, Box], paths: Mapping[str, Sequence[str]]) -> None:
    """Move nodes of one level down until none covers another one: the editor had other sizes."""
    placed: list[Box] = []
    for id_ in sorted(ids, key=lambda id_: (boxes[id_].y, boxes[id_].x)):
        box = boxes[id_]
        while (covered := next((other for other in placed if _overlap(box, other)), None)) is not None:
            box = replace(box, y=covered.y + covered.height + APART)
        placed.append(box)
        if by := box.y - boxes[id_].y:
            for inner in [other for other, path in paths.items() if id_ in path]:
                boxes[inner] = replace(boxes[inner], y=boxes[inner].y + by)


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def _draw(
    sketch: Sketch, paths: Mapping[str, Sequence[str]], boxes: Mapping[str, Box], direction: Direction
) -> Arrangement:
    """Return the arrangement of boxes, moved into the drawing. The entry into a body is not drawn."""
    edges = [edge for edge in sketch.edges if edge.source not in paths[edge.target][:-1]]
    corners = [(box.x, box.y) for box in boxes.values()]
    corners += [(box.x + box.width, box.y + box.height) for box in boxes.values()]
    for edge in edges:
        curve = _curve(boxes[edge.source], boxes[edge.target], direction)
        corners += [_point(curve, step / 16) for step in range(17)]
    left, top = (min(corner[axis] for corner in corners) - MARGIN for axis in (0, 1))
    right, bottom = (max(corner[axis] for corner in corners) + MARGIN for axis in (0, 1))
    moved = {id_: replace(box, x=box.x - left, y=box.y - top) for id_, box in boxes.items()}
    wires = [_wire(edge, moved[edge.source], moved[edge.target], direction) for edge in edges]
    return Arrangement(moved, wires, right - left, bottom - top)


def _wire(edge: SketchEdge, source: Box, target: Box, direction: Direction) -> Wire:
    """Return an edge as a curve that leaves and enters along the flow."""
    curve = _curve(source, target, direction)
    path = "M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}".format(*(v for point in curve for v in point))
    return Wire(edge, path, *_place_label(edge.label, curve, target, direction))


def _place_label(label: str, curve: Curve, target: Box, direction: Direction) -> tuple[str, float, float]:
    """Return a label and its middle: beside the edge, or above its target if there is no room between its nodes."""
    (x, y), start, end = _point(curve, LABEL_AT), curve[0], curve[3]
    text = shorten_text(label, MAX_LABEL, LABEL_SIZE)
    half = text_width(text, LABEL_SIZE) / 2
    if direction == "down":
        return text, x + (half + LABEL_SIZE / 2) * (1 if end[0] >= start[0] else -1), y
    if 0 < end[0] - start[0] < half * 2 + LABEL_SIZE:
        return text, target.x + half, target.y - LABEL_SIZE * 0.7
    return text, min(x, end[0] - half - LABEL_SIZE), y + LABEL_SIZE * (1 if end[1] > start[1] else -1)


def _curve(source: Box, target: Box, direction: Direction) -> Curve:
    """Return the start, the two bends and the end of an edge."""
    if direction == "down":
        start = (source.x + source.width / 2, source.y + source.height)
        end = (target.x + target.width / 2, target.y - 2)
        reach = _reach(end[1] - start[1], 28.0)
        return start, (start[0], start[1] + reach), (end[0], end[1] - reach), end
    start, end = (source.x + source.width, source.y + HEAD / 2), (target.x - 2, target.y + HEAD / 2)
    reach = _reach(end[0] - start[0], 40.0)
    return start, (start[0] + reach, start[1]), (end[0] - reach, end[1]), end


def _reach(distance: float, least: float) -> float:
    """Return how far the bends of an edge are from its ends. An edge against the flow turns near them."""
    return max(least, distance / 2 if distance > 0 else min(-distance / 2, MAX_TURN))


def _point(curve: Curve, t: float) -> Point:
    """Return the point of a curve at a share of its way."""
    a, b, c, d = (1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = curve
    return a * ax + b * bx + c * cx + d * dx, a * ay + b * by + c * cy + d * dy
