import random
from itertools import pairwise

from ragflow_lg.base.ids import NodeId
from ragflow_lg.server.drawing import drawing_layout as layout
from ragflow_lg.server.drawing.drawing_layout import lay_out, visible_edges
from tests.server.drawing.plans import plan_of, support_plan


def n(*ids: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def test_edges_point_to_the_right() -> None:
    drawing = lay_out(plan_of([("begin", "a"), ("begin", "b"), ("a", "c"), ("b", "c"), ("begin", "c")]))
    columns = {node: box.column for node, box in drawing.boxes.items()}
    assert columns == {"begin": 0, "a": 1, "b": 1, "c": 2}
    assert drawing.columns == 3
    assert drawing.back == ()


def test_a_straight_chain_stays_on_one_row() -> None:
    drawing = lay_out(plan_of([("begin", "a"), ("a", "b"), ("b", "c")]))
    assert {box.row for box in drawing.boxes.values()} == {0.0}
    assert drawing.rows == 1


def test_branches_keep_their_order_and_surround_their_source() -> None:
    drawing = lay_out(plan_of([("begin", "a"), ("begin", "b"), ("begin", "c")]))
    rows = [drawing.boxes[id_].row for id_ in n("a", "b", "c")]
    assert rows == sorted(rows)
    assert drawing.boxes[NodeId("begin")].row == rows[1]


def test_a_long_edge_avoids_the_nodes_in_between() -> None:
    drawing = lay_out(plan_of([("begin", "a"), ("a", "b"), ("b", "c"), ("begin", "c")]))
    bends = drawing.bends[NodeId("begin"), NodeId("c")]
    assert [bend.column for bend in bends] == [1, 2]
    for bend, node in zip(bends, n("a", "b"), strict=True):
        assert abs(bend.row - drawing.boxes[node].row) >= (layout.NODE_ROWS + layout.BEND_ROWS) / 2 - 1e-9


def test_cycles_have_back_edges() -> None:
    assert lay_out(support_plan()).back == (n("Switch:Enough", "LLM:Desk"),)


def test_parallel_edges_are_merged() -> None:
    edges = {(e.source, e.target): e for e in visible_edges(support_plan())}
    edge = edges[NodeId("Categorize:Sort"), NodeId("LLM:Desk")]
    assert edge.label == "Order, Refund"
    assert edge.is_conditional


def test_four_hundred_tangled_nodes_do_not_overlap() -> None:
    draw = random.Random(7)
    edges = [("begin", "m0"), *((f"m{i}", f"m{i + 1}") for i in range(398))]
    edges += [(f"m{i}", f"m{draw.randrange(i + 1, 399)}") for i in range(0, 397, 3)]
    drawing = lay_out(plan_of(dict.fromkeys(edges)))
    by_column: dict[int, list[float]] = {}
    for box in drawing.boxes.values():
        by_column.setdefault(box.column, []).append(box.row)
    assert len(drawing.boxes) == 400
    for rows in by_column.values():
        assert all(below - above >= 1 - 1e-9 for above, below in pairwise(sorted(rows)))


def test_too_many_bends_make_edges_straight() -> None:
    chain = [("begin", "m0"), *((f"m{i}", f"m{i + 1}") for i in range(150))]
    drawing = lay_out(plan_of([*chain, *((f"m{i}", "m150") for i in range(140))]))
    assert drawing.bends == {}
