from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler.passes.collect_components import MAX_COMPONENTS
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, plan_of, text
from tests.fakes.regions import answer_of, out
from tests.harness.rows import each_row


def test_missing_keys_have_defaults() -> None:
    document = {"components": {"begin": {"obj": {"component_name": "Begin"}, "downstream": ["a"]}, "a": text()}}
    assert plan_of(document).nodes[NodeId("begin")].downstream == ("a",)


def test_flat_components_are_read() -> None:
    flat: dict[str, Any] = {
        "id": "a",
        "name": "StringTransform",
        "params": {"method": "merge", "script": "x"},
        "downstream": [],
    }
    assert plan_of(canvas({"a": flat})).nodes[NodeId("a")].spec.name == "StringTransform"


@pytest.mark.parametrize("downstream", ["b", ["b", "b"], ["b", None, 3]])
def test_downstream_may_have_several_shapes(downstream: Any) -> None:
    document = canvas({"a": {**text(), "downstream": downstream}, "b": text()})
    assert plan_of(document).nodes[NodeId("a")].downstream == ("b",)


@each_row(
    ("downstream", "severity", "pointer", "message"),
    [
        ("b", "warning", "", "is a string, not a list"),
        (["b", None, 3], "warning", "/1", "is null, not an id; it is ignored"),
        (["b", dict[str, Any]()], "warning", "/1", "is an object, not an id"),
        (3, "error", "", "is a number, not a list of ids"),
        (True, "error", "", "is true or false, not a list of ids"),
    ],
)
def test_downstream_of_a_wrong_type_is_reported(downstream: Any, severity: str, pointer: str, message: str) -> None:
    document = canvas({"a": {**text(), "downstream": downstream}, "b": text()})
    (diagnostic,) = diagnostics_of(document, "document-shape")
    assert (diagnostic.severity, diagnostic.pointer) == (severity, f"/components/a/downstream{pointer}")
    assert message in diagnostic.message
    assert diagnostic.hint


@pytest.mark.parametrize("downstream", [None, "", [], ["b"]])
def test_usual_shapes_of_downstream_are_not_reported(downstream: Any) -> None:
    assert not diagnostics_of(canvas({"a": {**text(), "downstream": downstream}, "b": text()}), "document-shape")


def test_titles_come_from_the_graph() -> None:
    graph = {"nodes": [{"id": "a", "data": {"name": "Titled"}}, "junk", {"id": 3}]}
    assert plan_of(canvas({"a": text()}, graph=graph)).nodes[NodeId("a")].title == "Titled"


@pytest.mark.parametrize("document", [{"components": []}, {"components": "x"}, {"components": 1}])
def test_components_of_a_wrong_type_are_refused(document: dict[str, Any]) -> None:
    assert diagnostics_of(document, "document-shape")[0].pointer == "/components"


@each_row("component", [None, 1, "x", [], {"obj": {}}, {"obj": {"component_name": 3}}, {"...": "..."}])
def test_a_malformed_component_is_refused_with_its_pointer(component: Any) -> None:
    assert diagnostics_of(canvas({"a": text(), "bad": component}), "document-shape")[0].pointer == "/components/bad"


def test_params_of_a_wrong_type_are_refused() -> None:
    bad = {"obj": {"component_name": "Message", "params": [1]}}
    assert diagnostics_of(canvas({"bad": bad}), "document-shape")[0].pointer == "/components/bad/obj/params"


@pytest.mark.parametrize("id_", ["", "__operations__"])
def test_reserved_ids_are_refused(id_: str) -> None:
    assert diagnostics_of(canvas({"a": text(), id_: text()}), "id-invalid")


@each_row("id_", ["__e", "__start__", "__end__", "__round__", "__interrupt__"])
async def test_ids_that_look_like_langgraph_names_are_accepted(id_: str) -> None:
    components = {id_: text(["out"], "x"), **out(f"got {{{id_}@result}}")}
    assert await answer_of(components) == "got x"


@pytest.mark.parametrize("document", [{}, {"components": {}}, {"graph": {"nodes": []}}])
def test_an_empty_document_is_refused(document: dict[str, Any]) -> None:
    assert diagnostics_of(document, "document-empty")


def test_old_run_state_is_ignored() -> None:
    document = canvas(
        {"a": text()}, path=["begin", "a"], history=[["user", "x"]], retrieval={"chunks": []}, memory=None
    )
    assert plan_of(document).canvas_hash == plan_of(canvas({"a": text()})).canvas_hash
    assert CATALOG.get("Begin")


def test_upstream_is_ignored() -> None:
    components = {
        "a": {**text(["b"]), "upstream": ["nobody"]},
        "b": {**node("Message", {"content": "x"}), "upstream": None},
    }
    assert plan_of(canvas(components)).nodes[NodeId("a")].downstream == ("b",)


def test_the_size_of_a_canvas_is_limited() -> None:
    nested = {"r0": node("Loop"), **{f"r{i}": node("Loop", parent_id=f"r{i - 1}") for i in range(1, 200)}}
    assert "deep" in diagnostics_of(canvas(nested), "document-too-large")[0].message
    many = {f"n{i}": text() for i in range(MAX_COMPONENTS + 1)}
    assert "10,000" in diagnostics_of(canvas(many), "document-too-large")[0].message


def test_the_length_of_an_id_is_limited() -> None:
    (diagnostic,) = diagnostics_of(canvas({"x" * 2000: text(), "a": text()}, ["a"]), "id-invalid")
    assert len(diagnostic.message) < 200
    assert diagnostic.pointer == "/components"


@pytest.mark.parametrize(
    "document",
    [
        {"components": {"File": node("File", {}, ["p"]), "p": node("Parser")}},
        {"canvas_category": "dataflow_canvas", "dsl": {"components": {"a": text()}}},
        {"components": {"x": node("Compiler")}},
        {"graph": {"nodes": [{"id": "File", "type": "beginNode", "data": {"label": "File"}}], "edges": []}},
    ],
)
def test_an_ingestion_pipeline_is_recognized(document: dict[str, object]) -> None:
    (diagnostic,) = diagnostics_of(document, "pipeline-document")
    assert diagnostic.severity == "error"


def test_legacy_components_that_cannot_be_upgraded_are_reported_with_their_replacement() -> None:
    (diagnostic,) = diagnostics_of(canvas({"old": node("Cite")}), "legacy-component")
    assert (diagnostic.pointer, diagnostic.severity) == ("/components/old", "error")
    assert "Replaced by" in diagnostic.hint


def test_legacy_components_of_a_graph_are_reported() -> None:
    document = {
        "graph": {"nodes": [{"id": "begin", "data": {"label": "Begin"}}, {"id": "g", "data": {"label": "Generate"}}]}
    }
    assert diagnostics_of(document, "legacy-component")[-1].pointer == "/graph/nodes/1"
