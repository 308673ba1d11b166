import random
import re
import time
from itertools import pairwise, product

from msgspec.structs import replace

from ragflow_lg.dsl_compiler.drawing.arrangement import LABEL_SIZE, Arrangement, Box, arrange, arrange_as_in_editor
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, SketchEdge, SketchNode
from ragflow_lg.dsl_compiler.drawing.text_size import text_width


def is_inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def do_overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def assert_sound(sketch: Sketch, arrangement: Arrangement) -> None:
    """Check that nodes stand inside their containers and nowhere else, do not overlap, and that no edge is cut off."""
    boxes = arrangement.boxes
    whole = Box(0, 0, arrangement.width, arrangement.height)
    for node in sketch.nodes:
        assert is_inside(boxes[node.id], boxes.get(node.parent, whole))
    for a in sketch.nodes:
        for b in sketch.nodes:
            if a.id < b.id and a.parent == b.parent:
                assert not do_overlap(boxes[a.id], boxes[b.id]), (a.id, b.id)
    for wire in arrangement.wires:
        for x, y in points_of(wire.path):
            assert 0 <= x <= arrangement.width, wire
            assert 0 <= y <= arrangement.height, wire


def points_of(path: str) -> list[tuple[float, float]]:
    """Return points of a cubic curve, by De Casteljau's construction."""
    ends = [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]
    found: list[tuple[float, float]] = []
    for step in range(41):
        points: list[tuple[float, float]] = ends
        while len(points) > 1:
            points = [(a[0] + (b[0] - a[0]) * step / 40, a[1] + (b[1] - a[1]) * step / 40) for a, b in pairwise(points)]
        found += points
    return found


def test_random_nested_sketches_are_sound() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        count = draw.randint(1, 25)
        parents = ["", *(draw.choice(["", "", f"n{draw.randrange(i)}"]) for i in range(1, count))]
        nodes = tuple(SketchNode(f"n{i}", "Title " * draw.randint(0, 9), "X", "", parents[i]) for i in range(count))
        ends = {(f"n{draw.randrange(count)}", f"n{draw.randrange(count)}") for _ in range(count * 2)}
        sketch = Sketch("", nodes, tuple(SketchEdge(a, b, "label") for a, b in sorted(ends)))
        assert_sound(sketch, arrange(sketch, draw.choice(["right", "down"])))
        sketch = replace(
            sketch, positions={f"n{i}": (draw.uniform(0, 500), draw.uniform(0, 300)) for i in range(count)}
        )
        assert_sound(sketch, arrange_as_in_editor(sketch))


def test_deeply_nested_containers_do_not_take_long() -> None:
    nodes = tuple(SketchNode(f"n{i}", "Title", "X", "", f"n{i - 1}" if i else "") for i in range(500))
    edges = tuple(SketchEdge(f"n{i}", f"n{i + 1}") for i in range(499))
    began = time.process_time()
    arrange(Sketch("", nodes, edges))
    assert time.process_time() - began < 5


def test_an_edge_out_of_a_container_begins_at_its_node() -> None:
    nodes = (SketchNode("a", "A", "X", ""), SketchNode("b", "B", "X", "", "a"), SketchNode("c", "C", "X", ""))
    sketch = Sketch("", nodes, (SketchEdge("a", "b"), SketchEdge("b", "c", "leaves", True)))
    arrangement = arrange(sketch)
    (wire,) = arrangement.wires  # the entry into the body is not drawn
    box = arrangement.boxes["b"]
    assert wire.path.startswith(f"M{box.x + box.width:.1f},")
    assert wire.edge.label == "leaves"


def test_nodes_stand_after_their_predecessors_and_cycles_go_back() -> None:
    nodes = tuple(SketchNode(id_, id_, "X", "") for id_ in "acb")
    sketch = Sketch("", nodes, (SketchEdge("a", "b"), SketchEdge("b", "c"), SketchEdge("a", "c"), SketchEdge("c", "b")))
    boxes = arrange(sketch).boxes
    assert boxes["a"].x < boxes["b"].x < boxes["c"].x
    assert {box.y for box in boxes.values()} == {boxes["a"].y}


def test_branches_keep_their_order_and_surround_their_source() -> None:
    nodes = tuple(SketchNode(id_, id_, "X", "") for id_ in "sabc")
    boxes = arrange(Sketch("", nodes, tuple(SketchEdge("s", id_) for id_ in "abc"))).boxes
    assert boxes["a"].y < boxes["b"].y == boxes["s"].y < boxes["c"].y


def test_a_label_hides_neither_its_edge_nor_a_node() -> None:
    for label, below, gap in product(("Refund", "A long category"), (-120, 0, 120), (20, 90, 200)):
        nodes = (SketchNode("a", "A", "X", ""), SketchNode("b", "B", "X", ""))
        places = {"a": (0.0, 0.0), "b": (160.0 + gap, float(below))}
        arrangement = arrange_as_in_editor(Sketch("", nodes, (SketchEdge("a", "b", label),), places))
        (wire,) = arrangement.wires
        half, tall = text_width(wire.label, LABEL_SIZE) / 2, LABEL_SIZE / 2
        rows = [wire.label_y - tall * 0.7, wire.label_y, wire.label_y + tall * 0.7]
        points = [(wire.label_x + half * share, y) for share in (-1, -0.5, 0, 0.5, 1) for y in rows]
        for box in arrangement.boxes.values():
            assert not [p for p in points if box.x < p[0] < box.x + box.width and box.y < p[1] < box.y + box.height]
        line = points_of(wire.path)
        assert not [p for p in line if abs(p[0] - wire.label_x) < half and abs(p[1] - wire.label_y) < tall * 0.7]


def test_the_label_of_a_steep_edge_stands_beside_its_target() -> None:
    targets = [f"t{i}" for i in range(12)]
    nodes = tuple(SketchNode(id_, id_, "X", "") for id_ in ("s", *targets))
    edges = tuple(SketchEdge("s", id_, f"Case {id_}", True) for id_ in targets)
    arrangement = arrange(Sketch("", nodes, edges))
    middles = {id_: box.y + box.height / 2 for id_, box in arrangement.boxes.items() if id_ in targets}
    for wire in arrangement.wires:
        nearest = next(iter(sorted(middles, key=lambda id_, y=wire.label_y: abs(middles[id_] - y))))
        assert nearest == wire.edge.target
        assert wire.label_x < arrangement.boxes[nearest].x
