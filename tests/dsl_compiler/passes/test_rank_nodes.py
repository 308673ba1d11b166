from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.passes.rank_nodes import UNREACHED
from tests.fakes.canvas import canvas, plan_of, switch, text


def test_nodes_are_ranked_breadth_first_in_the_order_of_targets() -> None:
    components = {"s": switch(["b", "a"], ["c"]), "a": text(["z"]), "b": text(), "c": text(), "z": text()}
    ranks = {id_: node.rank for id_, node in plan_of(canvas(components)).nodes.items()}
    assert ranks == {"begin": 0, "s": 1, "b": 2, "a": 3, "c": 4, "z": 5}


def test_an_unreachable_node_has_no_rank() -> None:
    assert plan_of(canvas({"a": text(), "island": text()})).nodes[NodeId("island")].rank == UNREACHED
