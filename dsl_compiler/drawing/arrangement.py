"""Arranges a sketch in pixels: boxes, the boxes that contain others, and the curves of the edges.

Each container is laid out on its own and is one box on the level above, so that only its own nodes stand inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragflow_lg.dsl_compiler.drawing.layered import Layers, Point, Size, lay_out
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, SketchEdge, SketchNode
from ragflow_lg.dsl_compiler.drawing.text_size import text_width, wrap_text

Direction = Literal["right", "down"]

MIN_WIDTH, MAX_WIDTH = 140.0, 280.0
HEAD, LINE_HEIGHT, CHIP_HEIGHT = 56.0, 17.0, 20.0
"""Height of a node with one line of title, of each further line, and of each tool. All sizes are in pixels."""
TITLE_SIZE, KIND_SIZE, LABEL_SIZE, CHIP_SIZE = 13.5, 11.0, 10.5, 10.5
INDENT = 18.0
"""Distance of texts from the edges of a node."""
MAX_TITLE_LINES = 2

MARGIN, PADDING, BAR = 28.0, 18.0, 44.0
"""Around the drawing, around the nodes inside a container, and the height of a container's bar with its title."""
MIN_GAP, MAX_GAP = 56.0, 190.0
TURN = 24.0
"""The room that a steep edge has to turn before its label."""
LANE = 18.0
"""Distance between two back edges, which run beside the nodes of their level."""

Command = tuple[str, tuple[Point, ...]]
"""``M``, ``L``, ``C`` or ``Q`` of an SVG path, with its points."""


class Box(Struct, frozen=True):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


class Wire(Struct, frozen=True):
    """An edge as a curve, and the position of its label."""

    edge: SketchEdge
    path: str
    label_x: float
    label_y: float


class Arrangement(Struct, frozen=True):
    """A drawing's boxes and curves, in pixels."""

    boxes: Mapping[str, Box]
    """By the id of the node, containers included."""
    wires: Sequence[Wire]
    width: float
    height: float


class _Level(Struct, frozen=True):
    """The layout inside a container, or of the canvas."""

    nodes: Sequence[str]
    layers: Layers
    edges: Mapping[tuple[int, int], SketchEdge]
    size: Size
    """With the lanes of its back edges."""


def title_lines(node: SketchNode, width: float) -> tuple[str, ...]:
    """Return the lines of a node's title."""
    return wrap_text(node.title, width - INDENT * 2, TITLE_SIZE, MAX_TITLE_LINES)


def arrange(sketch: Sketch, direction: Direction = "right") -> Arrangement:
    """Return the arrangement of a sketch, with the flow to the right or down."""
    return _Arranger(sketch, direction).arrange()


def node_size(node: SketchNode) -> tuple[float, float]:
    """Return the width and height of a node that contains no others."""
    widest = max(
        [
            text_width(node.title, TITLE_SIZE) + 4,
            text_width(node.name, KIND_SIZE),
            *(text_width(tool.label, CHIP_SIZE) + 14 * (tool.level + 1) + 8 for tool in node.tools),
        ]
    )
    width = min(MAX_WIDTH, max(MIN_WIDTH, widest + INDENT * 2))
    extra_lines = len(title_lines(node, width)) - 1
    chips = len(node.tools) * CHIP_HEIGHT + 8 if node.tools else 0.0
    return width, HEAD + extra_lines * LINE_HEIGHT + chips


class _Arranger:
    def __init__(self, sketch: Sketch, direction: Direction) -> None:
        self._is_down = direction == "down"
        self._nodes = {node.id: node for node in sketch.nodes}
        self._children: dict[str, list[str]] = {}
        for node in sketch.nodes:
            self._children.setdefault(node.parent if node.parent in self._nodes else "", []).append(node.id)
        self._edges: dict[str, dict[tuple[str, str], SketchEdge]] = {}
        for edge in sketch.edges:
            self._sort_edge(edge)
        longest = max((text_width(edge.label, LABEL_SIZE) for edge in sketch.edges), default=0.0)
        self._gap = MIN_GAP if self._is_down else min(MAX_GAP, max(MIN_GAP, longest + 34))
        self._levels: dict[str, _Level] = {}
        self._boxes: dict[str, Box] = {}
        self._wires: list[Wire] = []

    def _sort_edge(self, edge: SketchEdge) -> None:
        """Add an edge to the level that has both its ends, or the containers of its ends. Entries are not drawn."""
        sources, targets = self._path_to(edge.source), self._path_to(edge.target)
        if edge.source in targets or edge.target in sources:
            if edge.source != edge.target:
                return
            level, ends = self._nodes[edge.source].parent, (edge.source, edge.target)
        else:
            depth = next(i for i, (a, b) in enumerate(zip(sources, targets, strict=False)) if a != b)
            level, ends = (sources[depth - 1] if depth else ""), (sources[depth], targets[depth])
        self._edges.setdefault(level if level in self._nodes else "", {}).setdefault(ends, edge)

    def _path_to(self, id_: str) -> list[str]:
        """Return the containers of a node from the outermost one, and the node."""
        path = [id_]
        while (parent := self._nodes[path[-1]].parent) in self._nodes:
            path.append(parent)
        return path[::-1]

    def arrange(self) -> Arrangement:
        for parent in self._from_innermost():
            self._levels[parent] = self._lay_out(parent)
        size = self._levels[""].size
        self._place("", Point(MARGIN, MARGIN))
        width, height = (size.across, size.along) if self._is_down else (size.along, size.across)
        return Arrangement(self._boxes, self._wires, width + MARGIN * 2, height + MARGIN * 2)

    def _from_innermost(self) -> list[str]:
        order = [""]
        for parent in order:  # grows during the loop
            order += [child for child in self._children.get(parent, ()) if child in self._children]
        return order[::-1]

    def _lay_out(self, parent: str) -> _Level:
        nodes = self._children.get(parent, [])
        number = {id_: index for index, id_ in enumerate(nodes)}
        edges = {(number[a], number[b]): edge for (a, b), edge in self._edges.get(parent, {}).items()}
        layers = lay_out([self._size(id_) for id_ in nodes], list(edges), self._gap)
        lanes = len(layers.back)
        # A lane also turns before the first node and after the last one.
        room = 24.0 if lanes else 0.0
        size = Size(layers.size.along + room * 2, layers.size.across + (lanes * LANE + 14 if lanes else 0.0))
        return _Level(nodes, layers, edges, size)

    def _size(self, id_: str) -> Size:
        width, height = self._outer_size(id_)
        return Size(height, width) if self._is_down else Size(width, height)

    def _outer_size(self, id_: str) -> tuple[float, float]:
        node = self._nodes[id_]
        own_width, own_height = node_size(node)
        if id_ not in self._children:
            return own_width, own_height
        size = self._levels[id_].size
        width, height = (size.across, size.along) if self._is_down else (size.along, size.across)
        return max(own_width, width + PADDING * 2), height + PADDING * 2 + BAR

    def _place(self, parent: str, origin: Point) -> None:
        """Set the boxes of the nodes of a level; ``origin`` is the corner of the level."""
        pending = [(parent, origin)]
        while pending:
            above, corner = pending.pop()
            level = self._levels[above]
            shift = 24.0 if level.layers.back else 0.0
            base = Point(corner.along + shift, corner.across)
            for index, id_ in enumerate(level.nodes):
                at = level.layers.corners[index]
                x, y = self._xy(Point(base.along + at.along, base.across + at.across))
                width, height = self._outer_size(id_)
                self._boxes[id_] = Box(x, y, width, height)
                if id_ in self._children:
                    inner_x, inner_y = x + PADDING, y + BAR + PADDING
                    pending.append((id_, Point(inner_y, inner_x) if self._is_down else Point(inner_x, inner_y)))
            for ends, edge in level.edges.items():
                self._draw_edge(level, ends, edge, base)

    def _xy(self, point: Point) -> tuple[float, float]:
        return (point.across, point.along) if self._is_down else (point.along, point.across)

    def _draw_edge(self, level: _Level, ends: tuple[int, int], edge: SketchEdge, base: Point) -> None:
        source, target = (self._ports(level.nodes[end]) for end in ends)
        if ends in level.layers.back or ends[0] == ends[1]:
            backs = level.layers.back
            lane = backs.index(ends) if ends in backs else 0
            commands, label = _back_curve(
                source[1], target[0], base.across + level.layers.size.across + 14 + LANE * lane
            )
        else:
            bends = [
                tuple(Point(base.along + point.along, base.across + point.across) for point in bend)
                for bend in level.layers.bends.get(ends, ())
            ]
            half = 0.0 if self._is_down else text_width(edge.label, LABEL_SIZE) / 2
            commands, label = _curve(source[1], target[0], bends, half, self._gap)
        x, y = self._xy(label)
        self._wires.append(Wire(edge, self._path(commands), x, y))

    def _ports(self, id_: str) -> tuple[Point, Point]:
        """Return where edges enter and leave a node."""
        box = self._boxes[id_]
        if self._is_down:
            middle = box.x + box.width / 2
            return Point(box.y - 2, middle), Point(box.y + box.height, middle)
        middle = box.y + box.height / 2
        return Point(box.x - 2, middle), Point(box.x + box.width, middle)

    def _path(self, commands: Sequence[Command]) -> str:
        parts: list[str] = []
        for letter, points in commands:
            parts.append(letter + " ".join("{:.1f},{:.1f}".format(*self._xy(point)) for point in points))
        return " ".join(parts)


def _curve(
    start: Point, end: Point, bends: Sequence[tuple[Point, ...]], label_half: float, gap: float
) -> tuple[list[Command], Point]:
    """Return an edge's curve, which is straight where it passes a rank, and its label's position.

    The label stands at the end of the first part, where edges from one node have parted; ``label_half`` is half its
    length, 0 if it takes no room. A steep edge is straight there, so that its label stands beside no other edge.
    """
    commands: list[Command] = [("M", (start,))]
    label, at = None, start
    for enter, leave in [*bends, (end, end)]:
        turn = enter
        if label is None:
            room = min(label_half + 14, gap / 2)
            if label_half and abs(enter.across - at.across) > gap:
                turn = Point(enter.along - min(2 * label_half + 18, gap - TURN), enter.across)
                label = Point(enter.along - room, enter.across)
            else:
                label = _point_before_end(at, enter, room)
        half = (at.along + turn.along) / 2
        commands.append(("C", (Point(half, at.across), Point(half, turn.across), turn)))
        if leave != turn:
            commands.append(("L", (leave,)))
        at = leave
    assert label is not None
    return commands, label


def _point_before_end(start: Point, end: Point, distance: float) -> Point:
    """Return the point of the curve between two points that is ``distance`` before its end."""
    half, goal = (start.along + end.along) / 2, max((start.along + end.along) / 2, end.along - distance)
    low, high = 0.0, 1.0
    for _ in range(20):
        t = (low + high) / 2
        along = (1 - t) ** 3 * start.along + 3 * (1 - t) * t * half + t**3 * end.along
        low, high = (t, high) if along < goal else (low, t)
    share = low * low * (3 - 2 * low)
    return Point(goal, start.across + (end.across - start.across) * share)


def _back_curve(start: Point, end: Point, lane: float) -> tuple[list[Command], Point]:
    """Return a back edge's curve, which runs beside all nodes of its level, and its label's position."""
    out, into, bow = start.along + 18, end.along - 18, 10.0
    commands: list[Command] = [
        ("M", (start,)),
        ("Q", (Point(out, start.across), Point(out, start.across + bow))),
        ("L", (Point(out, lane - bow),)),
        ("Q", (Point(out, lane), Point(out - bow, lane))),
        ("L", (Point(into + bow, lane),)),
        ("Q", (Point(into, lane), Point(into, lane - bow))),
        ("L", (Point(into, end.across + bow),)),
        ("Q", (Point(into, end.across), end)),
    ]
    return commands, Point((out + into) / 2, lane)


def arrange_as_in_editor(sketch: Sketch) -> Arrangement:
    """Return the arrangement with the positions that the editor stored."""
    nodes = {node.id: node for node in sketch.nodes}
    boxes: dict[str, Box] = {}
    for id_, node in nodes.items():
        x, y = _absolute(id_, nodes, sketch.positions)
        boxes[id_] = Box(x, y, *node_size(node))
    for id_ in sorted(sketch.containers, key=lambda id_: -_depth(id_, nodes)):
        own = boxes[id_]
        inside = [boxes[node.id] for node in sketch.nodes if node.parent == id_]
        left, top = min(own.x, *(b.x - PADDING for b in inside)), min(own.y, *(b.y - BAR - PADDING for b in inside))
        right = max(own.x + own.width, *(b.x + b.width + PADDING for b in inside))
        bottom = max(own.y + BAR, *(b.y + b.height + PADDING for b in inside))
        boxes[id_] = Box(left, top, right - left, bottom - top)
    left, top = (min(getattr(box, name) for box in boxes.values()) - MARGIN for name in ("x", "y"))
    boxes = {id_: Box(box.x - left, box.y - top, box.width, box.height) for id_, box in boxes.items()}
    wires: list[Wire] = []
    for edge in sketch.edges:
        if nodes[edge.target].parent == edge.source:
            continue
        a, b = boxes[edge.source], boxes[edge.target]
        start, end = Point(a.x + a.width, a.y + HEAD / 2), Point(b.x - 2, b.y + HEAD / 2)
        reach = max(40.0, abs(end.along - start.along) / 2)
        path = (
            f"M{start.along:.1f},{start.across:.1f} C{start.along + reach:.1f},{start.across:.1f} "
            f"{end.along - reach:.1f},{end.across:.1f} {end.along:.1f},{end.across:.1f}"
        )
        wires.append(Wire(edge, path, (start.along + end.along) / 2, (start.across + end.across) / 2))
    right = max(box.x + box.width for box in boxes.values())
    bottom = max(box.y + box.height for box in boxes.values())
    return Arrangement(boxes, wires, right + MARGIN, bottom + MARGIN)


def _absolute(
    id_: str, nodes: Mapping[str, SketchNode], positions: Mapping[str, tuple[float, float]]
) -> tuple[float, float]:
    x, y = positions[id_]
    while (parent := nodes[id_].parent) in nodes:
        x, y, id_ = x + positions[parent][0], y + positions[parent][1], parent
    return x, y


def _depth(id_: str, nodes: Mapping[str, SketchNode]) -> int:
    depth = 0
    while (id_ := nodes[id_].parent) in nodes:
        depth += 1
    return depth
