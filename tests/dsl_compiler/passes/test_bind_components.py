from ragflow_lg.base.ids import NodeId
from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of


def test_names_are_looked_up_ignoring_case() -> None:
    assert plan_of(canvas({"a": node("message", {"content": ["x"]})})).nodes[NodeId("a")].spec.name == "Message"


def test_an_unknown_name_is_refused_with_suggestions() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": node("Mesage", {"content": ["x"]})}), "component-unknown")
    assert diagnostic.severity == "error"
    assert "Message" in diagnostic.hint


def test_the_rest_of_the_canvas_is_still_checked() -> None:
    document = canvas({"a": node("Warp", {}, ["b"]), "b": node("Switch", {"conditions": [], "end_cpn_ids": ["a"]})})
    assert diagnostics_of(document, "component-unknown")
    assert diagnostics_of(document, "params-invalid")
