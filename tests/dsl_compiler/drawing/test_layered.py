import random
from itertools import pairwise

from ragflow_lg.dsl_compiler.drawing.layered import BEND_SPACE, SPACE, Layers, Size, lay_out

BOX = Size(200, 56)


def layers_of(edges: list[tuple[int, int]], count: int | None = None) -> Layers:
    boxes = count or max(max(edge) for edge in edges) + 1
    return lay_out([BOX] * boxes, edges, 64)


def middles(layers: Layers) -> list[float]:
    return [corner.across + BOX.across / 2 for corner in layers.corners]


def test_edges_point_along_the_flow() -> None:
    layers = layers_of([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    assert [corner.along for corner in layers.corners] == [0, 264, 264, 528]
    assert layers.size.along == 728
    assert layers.back == []


def test_a_straight_chain_stays_on_one_line() -> None:
    layers = layers_of([(0, 1), (1, 2), (2, 3)])
    assert {corner.across for corner in layers.corners} == {0.0}
    assert layers.size.across == 56


def test_branches_keep_their_order_and_surround_their_source() -> None:
    rows = middles(layers_of([(0, 1), (0, 2), (0, 3)]))
    assert rows[1:] == sorted(rows[1:])
    assert rows[0] == rows[2]


def test_a_rank_is_as_long_as_its_longest_box() -> None:
    layers = lay_out([BOX, Size(600, 56), BOX, BOX], [(0, 1), (0, 2), (2, 3)], 10)
    assert [corner.along for corner in layers.corners] == [0, 210, 210, 820]


def test_a_long_edge_avoids_the_boxes_in_between() -> None:
    layers = layers_of([(0, 1), (1, 2), (2, 3), (0, 3)])
    bends = layers.bends[0, 3]
    assert [(enter.along, leave.along) for enter, leave in bends] == [(264, 464), (528, 728)]
    for (enter, _), middle in zip(bends, middles(layers)[1:3], strict=True):
        assert abs(enter.across - middle) >= (BOX.across + SPACE) / 2 + BEND_SPACE - 1e-9


def test_cycles_and_self_references_have_back_edges() -> None:
    assert layers_of([(0, 1), (1, 2), (2, 1), (2, 2)]).back == [(2, 1), (2, 2)]


def test_four_hundred_tangled_boxes_do_not_overlap() -> None:
    draw = random.Random(7)
    edges = [(i, i + 1) for i in range(399)]
    edges += [(i, draw.randrange(i + 1, 400)) for i in range(0, 397, 3)]
    layers = layers_of(list(dict.fromkeys(edges)))
    by_rank: dict[float, list[float]] = {}
    for corner in layers.corners:
        by_rank.setdefault(corner.along, []).append(corner.across)
    assert len(layers.corners) == 400
    for rows in by_rank.values():
        assert all(below - above >= BOX.across for above, below in pairwise(sorted(rows)))


def test_too_many_bends_make_edges_straight() -> None:
    edges = [(i, i + 1) for i in range(150)]
    assert layers_of([*edges, *((i, 150) for i in range(140))]).bends == {}


def test_nothing_has_no_size() -> None:
    assert lay_out([], [], 10).size == Size(0, 0)
