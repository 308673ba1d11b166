import sys
import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.passes import find_joins
from tests.fakes.canvas import assert_findings, canvas, diagnostics_of, node, plan_of, switch, text
from tests.fakes.regions import out, play_run, runner_of
from tests.harness.rows import each_row

AB = {"a": text(), "b": text()}
ROUTER = {**switch(["a"], ["gone", "b"]), "downstream": ["a", "gone", "nowhere"]}
BEGIN = node("Begin", {}, ["a"])
LOOP = {"lp": node("Loop", {}, []), "li": node("LoopItem", {}, ["a"], parent_id="lp"), "a": text(parent_id="lp")}
FILES = node("Iteration", {"items_ref": "sys.files", "outputs": {}}, ["after"])
BODY = {"item": node("IterationItem", {}, ["body"], parent_id="it"), "body": text(["last"], "{item}", parent_id="it")}
SECOND = {"i2": node("IterationItem", {}, ["c"], parent_id="it"), "c": text(parent_id="it")}
ITEMS = {"it": FILES, **BODY, "last": text(parent_id="it"), "after": text()}
INNER = {
    "lp": node("Loop", {"maximum_loop_count": 2}, ["out"]),
    "li": node("LoopItem", {}, ["in"], parent_id="lp"),
    "in": node("Loop", {"maximum_loop_count": 1}, parent_id="lp"),
    "ii": node("LoopItem", {}, ["b"], parent_id="in"),
    "b": text(["lp"], parent_id="in"),
}


@each_row(
    ("document", "code", "expected"),
    [
        (canvas({"a": text(["b", "no"]), "b": text()}), "target-unknown", ["^warning .* /components/a/downstream:"]),
        (canvas({"a": text(["nowhere"])}), "target-unknown", ["^error"]),
        (canvas({"a": text(["answr"]), "answer": text()}), "target-unknown", [r"Did you mean answer\?$"]),
        (canvas({"s": switch(["gone"], ["a"]), "a": text()}), "target-unknown", ["^error"]),
        (canvas({"s": switch(["gone"], ["a"]), "a": text()}), "route-empty", []),
        (canvas({"s": switch(["begin"], ["a"]), "a": text()}), "route-empty", ["/s/obj/params/conditions/0/to:"]),
        (canvas({"a": text(["b", "begin"]), "b": text()}), "target-unknown", ["^warning"]),
        (canvas({"s": ROUTER, **AB}), "target-unknown", ["^warning .*end_cpn_ids:", "^warning .*downstream: .*'nowh"]),
        ({"components": {"other": BEGIN, "begin": BEGIN, "a": text()}}, "begin-multiple", ["^warning"]),
        ({"components": {"one": BEGIN, "two": BEGIN, "a": text()}}, "begin-multiple", ["^error"]),
        ({"components": {"a": text()}}, "begin-missing", [" /components:"]),
        (
            canvas({"begin": node("Begin", {"mode": "sideways"}, ["a"]), "a": text()}),
            "params-invalid",
            ["^error begin"],
        ),
        (canvas({"begin": node("Begin", {"mode": "sideways"}, ["a"]), "a": text()}), "begin-missing", []),
        (canvas({"a": text(["s"]), "s": switch(["a"], ["e"]), "e": text()}), "flow-cycle", ["^warning .*a → s → a"]),
        (canvas({"a": text(["b"]), "b": text(["a"])}), "flow-cycle", ["^error"]),
        (canvas({"a": text(["a"])}), "flow-cycle", ["^error"]),
        (canvas({**ITEMS, "last": text(["item"], parent_id="it")}), "flow-cycle", []),
        (canvas({"first": text(["lp", "a"]), **LOOP}), "region-invalid", ["^error first .*'a'"]),
        (canvas({**LOOP, "li": node("LoopItem", {}, [], parent_id="lp")}), "region-invalid", ["not lead to any node"]),
        (canvas({"it": node("Iteration", {"items_ref": "sys.files"})}), "region-invalid", [""]),
        (canvas({"item": node("IterationItem")}), "region-invalid", [""]),
        (canvas({"exit": node("ExitLoop", parent_id="nobody")}), "region-invalid", ["^error exit", "from outside"]),
        (canvas({**INNER, **out("x")}), "region-invalid", ["^error b .*leads back to 'lp'"]),
        (canvas({**ITEMS, **SECOND}), "region-invalid", ["^warning i2"]),
        (canvas({**ITEMS, **SECOND}), "node-unreachable", [" c "]),
    ],
)
def test_an_edge_that_leads_wrong_is_reported(document: dict[str, Any], code: str, expected: list[str]) -> None:
    assert_findings(document, code, *expected)


@each_row(
    ("components", "targets"),
    [
        ({"x": text(["b", "nowhere"]), "b": text()}, ("b",)),
        ({"x": text(["b", "begin"]), "b": text()}, ("b",)),
        ({"x": {**switch(["a"], ["b"]), "downstream": []}, **AB}, ("a", "b")),  # a router follows its routes
        *(
            ({"x": node("ListOperations", {"query": "sys.query", "exception_method": method, "exception_goto": ["a"]},
                        ["b"]), **AB}, targets)
            for method, targets in (("goto", ("b", "a")), ("", ("b",)), (None, ("b",)))
        ),
    ],
)  # fmt: skip
def test_the_targets_of_a_node(components: dict[str, Any], targets: tuple[str, ...]) -> None:
    assert plan_of(canvas(components)).nodes[NodeId("x")].targets == targets


def test_the_entry_and_the_cycles_of_a_plan() -> None:
    assert plan_of({"components": {"other": BEGIN, "begin": BEGIN, "a": text()}}).entry == "begin"
    assert plan_of({"components": {"start": node("begin", {}, ["a"]), "a": text()}}).entry == "start"
    cycle = {"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()}
    assert plan_of(canvas(cycle)).cyclic == {"a", "s"}


def test_exits_of_a_body_are_recorded_at_every_level() -> None:
    jump = {"query": "sys.query", "exception_method": "goto", "exception_goto": ["rescue"]}
    components = {
        "outer": node("Loop", {"maximum_loop_count": 1}, ["out"]),
        "oi": node("LoopItem", {}, ["inner"], parent_id="outer"),
        "inner": node("Loop", {"maximum_loop_count": 1}, [], parent_id="outer"),
        "ii": node("LoopItem", {}, ["bad"], parent_id="inner"),
        "bad": node("ListOperations", jump, parent_id="inner"),
        **{"out": text(), "rescue": text()},
    }
    nodes = plan_of(canvas(components)).nodes
    assert (nodes[NodeId("inner")].exits, nodes[NodeId("outer")].exits) == (("rescue",), ("rescue",))
    assert nodes[NodeId("outer")].chooses


async def test_an_edge_back_to_the_region_ends_the_round() -> None:
    loop = {"lp": node("Loop", {"maximum_loop_count": 2}, ["out"]), "li": node("LoopItem", {}, ["a"], parent_id="lp")}
    runner = runner_of({**loop, "a": text(["lp"], parent_id="lp"), **out("x")})
    assert (await play_run(runner.start("s", {"query": "q"})))[1].count("+a") == 2


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
