import random

import pytest

from ragflow_lg.dsl_compiler.flow import Flow

DIAMOND = Flow("a", {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["e"], "e": [], "x": ["a"]})
LOOP = Flow("a", {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []})


def test_only_what_is_reached_counts() -> None:
    assert DIAMOND.order == ["a", "b", "c", "d", "e"]
    assert DIAMOND.predecessors["d"] == ("b", "c")


def test_dominators() -> None:
    assert DIAMOND.dominators == {"a": "a", "b": "a", "c": "a", "d": "a", "e": "d"}


def test_between() -> None:
    assert set(DIAMOND.between("a", "d")) == {"b", "c"}
    assert DIAMOND.between("d", "e") == []


def test_ancestors() -> None:
    assert DIAMOND.is_ancestor("a", "e")
    assert not DIAMOND.is_ancestor("b", "c")
    assert not DIAMOND.is_ancestor("x", "a")
    assert LOOP.is_ancestor("c", "b")


def test_cycles() -> None:
    assert LOOP.cyclic == {"b", "c"}
    assert LOOP.cycle_path(["c", "b"]) == ["b", "c", "b"]
    assert not DIAMOND.cyclic


def test_solitary_nodes() -> None:
    assert DIAMOND.solitary == {"a", "d", "e"}
    assert LOOP.solitary == frozenset()


@pytest.mark.parametrize("seed", range(30))
def test_orders_of_random_graphs(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(12)]
    successors = {n: chance.sample(names, chance.randint(0, 3)) for n in names}
    flow = Flow("n0", successors)
    group = {node: members for members in flow.components for node in members}
    for node in flow.order:
        for successor in flow.successors[node]:
            if group[node] is not group[successor]:
                assert flow.position[node] < flow.position[successor]
        if node != "n0":
            without = {n: [s for s in following if s != flow.dominators[node]] for n, following in successors.items()}
            assert flow.dominators[node] == "n0" or node not in Flow("n0", without).order


def test_a_long_chain_is_no_recursion() -> None:
    chain = {f"n{i}": [f"n{i + 1}"] for i in range(20_000)} | {"n20000": []}
    flow = Flow("n0", chain)
    assert flow.dominators["n20000"] == "n19999"
    assert len(flow.components) == 20_001
