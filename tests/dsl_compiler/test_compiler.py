import json

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.harness.rows import each_row


def test_a_template_is_unwrapped() -> None:
    wrapper = {"title": {"en": "Hello", "de": "Hallo"}, "dsl": canvas({"a": text(["gone"])})}
    plan, diagnostics = check_canvas(json.dumps(wrapper, indent=1), CATALOG)
    assert plan is None
    assert diagnostics[0].pointer == "/dsl/components/a/downstream"
    assert diagnostics[0].line > 1


def test_the_wrapper_may_store_the_canvas_as_a_string() -> None:
    plan, _ = check_canvas({"dsl": json.dumps(canvas({"a": text()}))}, CATALOG)
    assert plan is not None


@each_row("source", ["3", "[]", '{"dsl": 3}', '{"dsl": "{"}', '"x"', "null"])
def test_a_source_that_is_not_a_canvas_is_an_error(source: str) -> None:
    plan, diagnostics = check_canvas(source, CATALOG)
    assert plan is None
    assert diagnostics[0].severity == "error"


def test_diagnostics_come_in_the_order_of_the_file() -> None:
    document = json.dumps(
        canvas({"b": node("Warp"), "a": node("Message", {}), "c": text(["x"])}, ["b", "a", "c"]), indent=1
    )
    positions = [(d.line, d.column) for d in check_canvas(document, CATALOG)[1]]
    assert positions == sorted(positions)
    assert len(positions) >= 3


def test_a_repeated_key_is_reported_where_it_stands() -> None:
    source = (
        '{"components": {"begin": {"obj": {"component_name": "Begin"}},\n  "a": {"obj": {"component_name": "Message",'
    )
    source += '\n    "component_name": "Message"}}, "a": {"obj": {"component_name": "Message"}}}}'
    diagnostics = [d for d in check_canvas(source, CATALOG)[1] if d.code == "json-duplicate-key"]
    assert [(d.line, d.column) for d in diagnostics] == [(3, 5), (3, 36)]


def test_compiling_raises_all_diagnostics() -> None:
    with pytest.raises(CompileError) as caught:
        compile_canvas(canvas({"b": node("Warp"), "a": node("Message", {})}, ["b", "a"]), CATALOG)
    assert {d.code for d in caught.value.diagnostics} >= {"component-unknown", "params-invalid"}
    assert "component-unknown" in str(caught.value)


def test_equal_canvases_have_equal_hashes_and_different_ones_do_not() -> None:
    one, other = (check_canvas(canvas({"a": text([], script)}), CATALOG)[0] for script in ("x", "y"))
    again = check_canvas(json.dumps(canvas({"a": text([], "x")})), CATALOG)[0]
    assert one is not None
    assert other is not None
    assert again is not None
    assert one.canvas_hash == again.canvas_hash != other.canvas_hash


def test_five_thousand_components_are_planned() -> None:
    ids = [f"n{i}" for i in range(5000)]
    ladder = {id_: text(ids[i + 1 : i + 3], "{n0@result}") for i, id_ in enumerate(ids)}
    plan, _ = check_canvas(canvas(ladder), CATALOG)
    assert plan is not None
    assert len(plan.joins) == 4998


def test_an_error_in_a_canvas_stored_as_a_string_names_the_line_in_the_string() -> None:
    wrapper = json.dumps({"title": "t", "dsl": '{\n\n "components": {True}}'}, indent=1)
    (diagnostic,) = check_canvas(wrapper, CATALOG)[1]
    assert (diagnostic.pointer, diagnostic.line) == ("/dsl", 3)
    assert 'line 3, column 17 of the text of "dsl"' in diagnostic.message
