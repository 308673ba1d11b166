from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.joins import JoinRegion


def region(looping: tuple[str, ...] = ()) -> JoinRegion:
    """top → a → j, top → r → (b → j | c), b → j."""
    n = NodeId
    nodes = ((n("a"), (n("top"),)), (n("r"), (n("top"),)), (n("b"), (n("r"),)))
    return JoinRegion(n("j"), (n("a"), n("b")), nodes, frozenset(), frozenset(map(n, looping)))


def test_a_join_waits_for_nodes_that_can_still_run() -> None:
    assert not region().is_ready({"a": None})
    assert not region().is_ready({"a": None, "r": ["b"]})
    assert region().is_ready({"a": None, "r": ["b"], "b": None})


def test_a_join_does_not_wait_for_a_dead_branch() -> None:
    assert region().is_ready({"a": None, "r": ["c"]})


def test_without_a_live_edge_a_join_never_runs() -> None:
    assert not region().is_ready({})
    assert not region().is_ready({"top": [], "a": ["elsewhere"], "r": ["c"]})
    assert not region().is_ready({}, settle=True)


def test_a_join_waits_for_an_entered_cycle_until_settled() -> None:
    looping = region(looping=("r", "b"))
    assert not looping.is_ready({"a": None, "r": ["c"]})
    assert looping.is_ready({"a": None, "r": ["c"]}, settle=True)
