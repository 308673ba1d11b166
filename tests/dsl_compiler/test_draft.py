from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, build_flows
from tests.fakes.canvas import CATALOG, canvas, node, text


def test_a_region_is_one_node_of_the_canvas_and_its_body_is_another_flow() -> None:
    components = {
        "it": node("Iteration", {"items_ref": "sys.files"}, ["after"]),
        "item": node("IterationItem", {}, ["body"], parent_id="it"),
        "body": text(["item"], parent_id="it"),
        "after": text(),
    }
    draft = run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    orders = {region: flow.order for region, flow in build_flows(draft).items()}
    assert orders == {None: ["begin", "it", "after"], "it": ["item", "body"]}
