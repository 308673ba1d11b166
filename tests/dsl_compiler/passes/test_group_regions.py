from dsl_compiler import check_canvas
from dsl_compiler.compiler import Draft, _run_passes
from dsl_compiler.diagnostics import Reporter
from tests.fakes.canvas import CATALOG, canvas, found, node, text

ITERATION = {
    "it": node("Iteration", {"items_ref": "sys.files", "outputs": {}}, ["after"]),
    "item": node("IterationItem", {}, ["body"], parent_id="it"),
    "body": text(["last"], "{item}", parent_id="it"),
    "last": text([], parent_id="it"),
    "after": text(),
}


def test_a_body_is_gathered_by_parent() -> None:
    draft = _run_passes(Draft(canvas(ITERATION), "", CATALOG), Reporter())
    region = draft.regions["it"]
    assert (region.item, region.body, region.start) == ("item", ("body", "last"), ("body",))


def test_a_region_without_item_node_starts_where_nothing_leads_to() -> None:
    components = {key: value for key, value in ITERATION.items() if key != "item"}
    draft = _run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    assert draft.regions["it"].start == ("body",)


def test_an_edge_back_to_the_item_node_is_no_cycle() -> None:
    components = {**ITERATION, "last": text(["item"], parent_id="it")}
    assert not found(canvas(components), "flow-cycle")


def test_a_region_cannot_run_yet_and_says_so() -> None:
    plan, diagnostics = check_canvas(canvas(ITERATION), CATALOG)
    assert plan is None
    assert {d.node for d in diagnostics if d.code == "component-not-yet"} == {"it", "item"}


def test_a_region_without_body_is_invalid() -> None:
    assert found(canvas({"it": node("Iteration", {"items_ref": "sys.files"})}), "region-invalid")


def test_an_item_node_outside_of_a_region_is_invalid() -> None:
    assert found(canvas({"item": node("IterationItem")}), "region-invalid")
    assert found(canvas({"exit": node("ExitLoop", parent_id="nobody")}), "region-invalid")
