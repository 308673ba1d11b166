import random
from collections.abc import Mapping, Sequence

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.flow import Flow
from tests.harness.rows import each_row


def flow_of(successors: Mapping[str, Sequence[str]], entry: str = "a") -> Flow:
    return Flow(NodeId(entry), {NodeId(n): [NodeId(s) for s in targets] for n, targets in successors.items()})


@each_row("seed", range(30))
def test_order_and_dominators_hold_in_random_graphs(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"n{i}" for i in range(12)]
    successors = {n: chance.sample(names, chance.randint(0, 3)) for n in names}
    flow = flow_of(successors, "n0")
    group = {node: members for members in flow.components for node in members}
    for node in flow.order:
        for successor in flow.successors[node]:
            if group[node] is not group[successor]:
                assert flow.position[node] < flow.position[successor]
        if node != "n0":
            without = {n: [s for s in following if s != flow.dominators[node]] for n, following in successors.items()}
            assert flow.dominators[node] == "n0" or node not in flow_of(without, "n0").order


def test_a_long_chain_exceeds_no_recursion_limit() -> None:
    chain = {f"n{i}": [f"n{i + 1}"] for i in range(20_000)} | {"n20000": []}
    flow = flow_of(chain, "n0")
    assert flow.dominators[NodeId("n20000")] == "n19999"
    assert len(flow.components) == 20_001
