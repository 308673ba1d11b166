from ragflow_lg.dsl_compiler.compiler import Draft, _run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.scopes import main_flow, scopes_of
from tests.fakes.canvas import CATALOG, canvas, node, text


def test_a_region_is_one_node_outside_and_a_flow_of_its_own_inside() -> None:
    components = {
        "it": node("Iteration", {"items_ref": "sys.files"}, ["after"]),
        "item": node("IterationItem", {}, ["body"], parent_id="it"),
        "body": text(["item"], parent_id="it"),
        "after": text(),
    }
    draft = _run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    assert main_flow(draft).order == ["begin", "it", "after"]
    assert [flow.order for flow in scopes_of(draft)] == [["begin", "it", "after"], ["item", "body"]]
