import sys
import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.passes import find_joins
from tests.fakes.canvas import canvas, diagnostics_of, plan_of, switch, text


def test_a_join_watches_its_predecessors_and_the_routers_before_them() -> None:
    components = {
        "s": switch(["a"], ["b"]),
        "a": text(["j"]),
        "b": text(["c"]),
        "c": text(["j"]),
        "d": text(["j"]),
        "j": text(),
    }
    plan = plan_of(canvas(components, ["s", "d"]))
    region = plan.joins[NodeId("j")]
    assert set(region.predecessors) == {"a", "c", "d"}
    assert region.watched == {"s", "a", "c", "d"}
    assert {id_ for id_, node in plan.nodes.items() if node.reports_to == ("j",)} == {"s", "a", "c", "d"}


def test_a_node_on_a_cycle_is_not_a_join() -> None:
    plan = plan_of(canvas({"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()}))
    assert not plan.joins


def test_a_join_after_a_cycle_has_its_looping_nodes() -> None:
    components = {"a": text(["s"]), "s": switch(["a"], ["j"]), "b": text(["j"]), "j": text()}
    assert plan_of(canvas(components, ["a", "b"])).joins[NodeId("j")].looping == {"a", "s"}


def test_nodes_of_a_chain_run_alone_and_siblings_do_not() -> None:
    chain = plan_of(canvas({"a": text(["b"]), "b": text()}))
    assert all(node.runs_alone for node in chain.nodes.values())
    fork = plan_of(canvas({"a": text(["j"]), "b": text(["j"]), "j": text()}, ["a", "b"]))
    assert {id_ for id_, node in fork.nodes.items() if node.runs_alone} == {"begin", "j"}


def test_nodes_of_a_cycle_run_alone_if_none_starts_two_others() -> None:
    cycle = plan_of(canvas({"a": text(["s"]), "s": switch(["a"], ["b"]), "b": text()}))
    assert all(node.runs_alone for node in cycle.nodes.values())
    fork = plan_of(canvas({"a": text(["s"]), "s": switch(["a"], ["b", "c"]), "b": text(), "c": text()}))
    assert not any(node.runs_alone for node in fork.nodes.values())


def test_joins_that_watch_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[find_joins.__module__], "MAX_WATCHED", 500_000)
    components: dict[str, Any] = {"s": switch(["x0"], ["y0"])}
    for i in range(400):
        to = [f"x{i + 1}", f"y{i + 1}"] if i < 399 else []
        components |= {f"x{i}": text(to), f"y{i}": text(to)}
    (diagnostic,) = diagnostics_of(canvas(components), "document-too-large")
    assert "branches" in diagnostic.message


def test_a_long_cycle_takes_linear_time() -> None:
    components = {f"n{i}": text([f"n{(i + 1) % 4000}"]) for i in range(4000)}
    start_s = time.process_time()
    assert diagnostics_of(canvas(components), "flow-cycle")
    assert time.process_time() - start_s < 10
