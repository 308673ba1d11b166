import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.diagnostics import ADVICE
from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, graph_name, node_id
from ragflow_lg.dsl_compiler.placeholder import placeholder_spec
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, switch, text
from tests.fakes.run import run_component
from tests.harness.rows import each_row


def test_a_template_is_unwrapped() -> None:
    wrapper = {"title": {"en": "Hello", "de": "Hallo"}, "dsl": canvas({"a": text(["gone"])})}
    plan, diagnostics = check_canvas(json.dumps(wrapper, indent=1), CATALOG)
    assert plan is None
    assert diagnostics[0].pointer == "/dsl/components/a/downstream"
    assert diagnostics[0].line > 1


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


def test_an_error_in_a_canvas_stored_as_a_string_names_the_line_in_the_string() -> None:
    wrapper = json.dumps({"title": "t", "dsl": '{\n\n "components": {True}}'}, indent=1)
    (diagnostic,) = check_canvas(wrapper, CATALOG)[1]
    assert (diagnostic.pointer, diagnostic.line) == ("/dsl", 3)
    assert 'line 3, column 17 of the text of "dsl"' in diagnostic.message


def test_equal_diagnostics_are_stored_once() -> None:
    reporter = Reporter()
    for _ in range(2):
        reporter.report("json-invalid", "warning", "", "text")
    assert len(reporter.diagnostics) == 1
    assert not reporter.has_errors
    reporter.report("json-invalid", "error", "", "text")
    assert reporter.has_errors


def test_a_diagnostic_without_hint_gets_the_advice_of_its_code() -> None:
    reporter = Reporter()
    reporter.report("route-empty", "error", "", "text")
    reporter.report("route-empty", "error", "", "text", hint="Do this.")
    assert [diagnostic.hint for diagnostic in reporter.diagnostics] == [ADVICE["route-empty"], "Do this."]


def test_a_pointer_ends_before_an_overlong_key() -> None:
    assert extend_pointer("/a", ["b", "x" * 2000, "c"]) == "/a/b"


async def test_a_placeholder_fails_when_it_runs() -> None:
    error = (await run_component(placeholder_spec("Warp"))).error
    assert "The canvas has errors and cannot run" in str(error)


def invalid_router(operator: str = "~~") -> dict[str, Any]:
    router = switch(["a", "nowhere"], ["gone"], operator=operator)
    return {**router, "downstream": ["lost"]}


def test_invalid_params_of_a_router_hide_no_missing_target() -> None:
    for operator in ("~~", "="):
        document = canvas({"s": invalid_router(operator), "a": text()})
        assert {
            (d.severity, d.pointer.removeprefix("/components/s/")) for d in diagnostics_of(document, "target-unknown")
        } == {("warning", "obj/params/conditions/0/to"), ("error", "obj/params/end_cpn_ids"), ("warning", "downstream")}
    assert len(diagnostics_of(canvas({"s": invalid_router(), "a": text()}), "params-invalid")) == 1


@pytest.mark.parametrize("goto", [[], ["a"]])
def test_invalid_params_of_other_components_hide_no_missing_target(goto: list[str]) -> None:
    params = {"query": "sys.query", "operations": "explode", "exception_method": "goto", "exception_goto": goto}
    document = canvas({"x": node("ListOperations", params, ["nowhere"]), "a": text()}, ["x", "a"])
    (diagnostic,) = diagnostics_of(document, "target-unknown")
    assert (diagnostic.severity, diagnostic.pointer) == ("error", "/components/x/downstream")


@each_row("conditions", [[], "x", [{"to": []}], [{"to": 5, "items": 7}], [[]], [5, None], {"0": {}}])
def test_invalid_routes_lead_to_all_components_that_they_name(conditions: Any) -> None:
    router = node("Switch", {"conditions": conditions, "end_cpn_ids": ["a"]})
    document = canvas({"s": router, "a": text()})
    assert diagnostics_of(document, "params-invalid")
    assert diagnostics_of(document, "node-unreachable") == []


@given(st.text())
def test_names_are_reversible(id_: str) -> None:
    name = graph_name(id_)
    assert node_id(name) == id_
    assert not set(name) & {":", "|"}
    assert not name.startswith("__")
    assert name != CLOSING_NODE


@given(st.text(alphabet="a:.%_|2EC", max_size=6), st.text(alphabet="a:.%_|2EC", max_size=6))
def test_different_ids_have_different_names(one: str, other: str) -> None:
    assert (graph_name(one) == graph_name(other)) == (one == other)
