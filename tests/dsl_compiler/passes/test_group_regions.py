from ragflow_lg.base.ids import NodeId
from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, text
from tests.fakes.regions import out, play_run, runner_of

ITERATION = {
    "it": node("Iteration", {"items_ref": "sys.files", "outputs": {}}, ["after"]),
    "item": node("IterationItem", {}, ["body"], parent_id="it"),
    "body": text(["last"], "{item}", parent_id="it"),
    "last": text([], parent_id="it"),
    "after": text(),
}


def test_an_edge_back_to_the_item_node_is_not_a_cycle() -> None:
    components = {**ITERATION, "last": text(["item"], parent_id="it")}
    assert not diagnostics_of(canvas(components), "flow-cycle")


def test_exits_of_a_body_are_recorded_at_every_level() -> None:
    jump = node("ListOperations", {"query": "sys.query", "exception_method": "goto", "exception_goto": ["rescue"]})
    components = {
        "outer": node("Loop", {"maximum_loop_count": 1}, ["out"]),
        "oi": node("LoopItem", {}, ["inner"], parent_id="outer"),
        "inner": node("Loop", {"maximum_loop_count": 1}, [], parent_id="outer"),
        "ii": node("LoopItem", {}, ["bad"], parent_id="inner"),
        "bad": {**jump, "parent_id": "inner"},
        "out": text(),
        "rescue": text(),
    }
    nodes = plan_of(canvas(components)).nodes
    assert (nodes[NodeId("inner")].exits, nodes[NodeId("outer")].exits) == (("rescue",), ("rescue",))
    assert nodes[NodeId("outer")].chooses


def test_an_edge_into_a_body_is_refused() -> None:
    loop = {"lp": node("Loop", {}, []), "li": node("LoopItem", {}, ["a"], parent_id="lp"), "a": text(parent_id="lp")}
    (diagnostic,) = diagnostics_of(canvas({"first": text(["lp", "a"]), **loop}), "region-invalid")
    assert (diagnostic.node, "'a'" in diagnostic.message) == ("first", True)


def test_an_item_that_leads_nowhere_is_refused() -> None:
    loop = {"lp": node("Loop", {}, []), "li": node("LoopItem", {}, [], parent_id="lp"), "a": text(parent_id="lp")}
    (diagnostic,) = diagnostics_of(canvas(loop), "region-invalid")
    assert "does not lead to any node" in diagnostic.message


def test_a_region_without_body_is_invalid() -> None:
    assert diagnostics_of(canvas({"it": node("Iteration", {"items_ref": "sys.files"})}), "region-invalid")


def test_an_item_node_outside_of_a_region_is_invalid() -> None:
    assert diagnostics_of(canvas({"item": node("IterationItem")}), "region-invalid")
    assert diagnostics_of(canvas({"exit": node("ExitLoop", parent_id="nobody")}), "region-invalid")


async def test_an_edge_back_to_the_region_ends_the_round_and_one_further_out_is_refused() -> None:
    loop = {"lp": node("Loop", {"maximum_loop_count": 2}, ["out"]), "li": node("LoopItem", {}, ["a"], parent_id="lp")}
    _, events = await play_run(
        runner_of({**loop, "a": text(["lp"], parent_id="lp"), **out("x")}).start("s", {"query": "q"})
    )
    assert events.count("+a") == 2
    inner = {
        "in": node("Loop", {"maximum_loop_count": 1}, parent_id="lp"),
        "ii": node("LoopItem", {}, ["b"], parent_id="in"),
        "b": text(["lp"], parent_id="in"),
    }
    loop["li"]["downstream"] = ["in"]
    (diagnostic,) = diagnostics_of(canvas({**loop, **inner, **out("x")}), "region-invalid")
    assert (diagnostic.node, "leads back to 'lp'" in diagnostic.message) == ("b", True)


def test_a_second_item_node_and_its_successors_are_reported() -> None:
    components = {
        "it": node("Iteration", {"items_ref": "sys.files"}),
        "i1": node("IterationItem", {}, ["b"], parent_id="it"),
        "i2": node("IterationItem", {}, ["c"], parent_id="it"),
        "b": text(parent_id="it"),
        "c": text(parent_id="it"),
    }
    assert [(d.node, d.severity) for d in diagnostics_of(canvas(components), "region-invalid")] == [("i2", "warning")]
    assert [d.node for d in diagnostics_of(canvas(components), "node-unreachable")] == ["c"]
