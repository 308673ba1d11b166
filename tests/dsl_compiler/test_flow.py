import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.flow import Flow
from tests.fakes.canvas import CATALOG
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


def build(count: int) -> dict[str, Any]:
    """Return a canvas with ``count`` nodes in groups of ten: a Switch, its branches, models, a join, and a Loop."""
    components: dict[str, Any] = {"begin": _node("Begin", {}, ["s0"])}
    for n in range(count // 10):
        then = [f"s{n + 1}"] if n + 1 < count // 10 else []
        case = {"items": [{"cpn_id": f"sys.x{n}", "operator": "=", "value": "1"}], "to": [f"a{n}"]}
        components |= {
            f"s{n}": _node("Switch", {"conditions": [case], "end_cpn_ids": [f"b{n}"]}, []),
            f"a{n}": _model("{sys.query}", [f"c{n}", f"d{n}"]),
            f"b{n}": _model("{sys.query}", [f"c{n}", f"d{n}"]),
            f"c{n}": _model(f"{{a{n}@content}} {{b{n}@content}}", [f"j{n}"]),
            f"d{n}": _model(f"{{a{n}@content}}", [f"j{n}"]),
            f"j{n}": _model(f"{{c{n}@content}} {{d{n}@content}}", [f"l{n}" if n % 2 else f"m{n}"]),
            f"m{n}": _node("Message", {"content": [f"{{j{n}@content}}"]}, then),
        }
        if n % 2:
            components[f"l{n}"] = _node("Loop", {"maximum_loop_count": 3}, [f"m{n}"])
            components[f"i{n}"] = {**_node("LoopItem", {}, [f"w{n}"]), "parent_id": f"l{n}"}
            components[f"w{n}"] = {**_model(f"{{j{n}@content}}", []), "parent_id": f"l{n}"}
    return {"components": components}


def _node(name: str, params: dict[str, Any], downstream: list[str]) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": params}, "downstream": downstream}


def _model(prompt: str, downstream: list[str]) -> dict[str, Any]:
    return _node("LLM", {"llm_id": "m@P", "prompts": [{"role": "user", "content": prompt}]}, downstream)


def count_calls(groups: int) -> int:
    """Return the number of calls in a check; without them, nothing in Python takes long."""
    document, calls = build(10 * groups), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    check_canvas(document, CATALOG)
    sys.setprofile(count)
    try:
        check_canvas(document, CATALOG)
    finally:
        sys.setprofile(None)
    return calls


def test_the_number_of_calls_is_linear() -> None:
    assert count_calls(80) < 4.1 * count_calls(20)
