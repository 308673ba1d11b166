import json
import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from tests.architecture.sources import ROOT
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, plan_of, switch, text
from tests.harness.rows import each_row

EDITOR_FIELDS: dict[str, list[str]] = json.loads((ROOT / "tests/fixtures/editor_fields.json").read_text())
"""The names of the fields in the forms of RAGFlow's editor, by component."""


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


@each_row(
    ("name", "text"),
    [
        ("PipelineChunker", "ingestion pipelines"),
        ("ManualChunker", "ingestion pipelines"),
        ("TokenChunker", "ingestion pipelines"),
        ("Webhook", "Begin with the mode Webhook"),
        ("YouComSearch", "TavilySearch"),
        ("QueryDecompositionRetrieval", "Retrieval as its tool"),
    ],
)
def test_a_name_from_another_version_is_explained(name: str, text: str) -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": node(name)}), "component-unknown")
    assert text in f"{diagnostic.message} {diagnostic.hint}"


@pytest.mark.parametrize("name", ["Chunker", "GroupTitleChunker", "HierarchyTitleChunker"])
def test_a_pipeline_with_a_former_chunker_is_recognised(name: str) -> None:
    document = {"components": {"File": node("File"), "x": node(name)}}
    assert diagnostics_of(document, "pipeline-document")


def test_former_names_are_renamed_or_replaced() -> None:
    plan = plan_of(canvas({"DuckDuckGoSearch:A": node("DuckDuckGoSearch", {"query": "sys.query"})}))
    assert plan.nodes[NodeId("DuckDuckGo:A")].spec.name == "DuckDuckGo"
    (diagnostic,) = diagnostics_of(canvas({"a": node("Cite")}), "legacy-component")
    assert "LLM or Agent with cite" in diagnostic.hint


def test_tools_with_former_names_are_renamed_or_explained() -> None:
    def agent(tool: str) -> dict[str, object]:
        tools: list[Any] = [{"component_name": tool, "name": "T", "params": {}}]
        return canvas({"a": node("Agent", {"llm_id": "m@T", "tools": tools})})

    assert [tool.spec.name for tool in plan_of(agent("DuckDuckGoSearch")).nodes[NodeId("a")].tools] == ["DuckDuckGo"]
    (diagnostic,) = diagnostics_of(agent("YouComSearch"), "tool-unknown")
    assert "TavilySearch" in diagnostic.hint


def test_each_invalid_parameter_is_reported_with_its_pointer() -> None:
    document = canvas({"a": node("ListOperations", {"query": "sys.query", "operations": "explode", "max_retries": -1})})
    pointers = {d.pointer for d in diagnostics_of(document, "params-invalid")}
    assert pointers == {"/components/a/obj/params/operations", "/components/a/obj/params/max_retries"}


def test_a_missing_parameter_is_reported() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": node("ListOperations", {})}), "params-invalid")
    assert "query" in diagnostic.message


def test_null_means_not_set() -> None:
    params = {"content": ["x"], "stream": None, "exception_method": None, "max_retries": None, "inputs": None}
    message: Any = plan_of(canvas({"a": node("Message", params)})).nodes[NodeId("a")].params
    assert message.stream is True


def test_outputs_of_some_components_are_null_at_first_if_none_are_declared() -> None:
    merge = {"method": "merge", "script": "x"}
    declared = node("StringTransform", {**merge, "outputs": {"other": {"type": "string"}}}, ["m"])
    nodes = plan_of(
        canvas({"a": node("StringTransform", merge, ["b"]), "b": declared, "m": node("Message", {"content": ["y"]})})
    ).nodes
    assert [set(nodes[NodeId(id_)].declared) for id_ in "abm"] == [{"result"}, {"other"}, {"content", "downloads"}]


def test_unknown_parameters_are_reported_except_those_of_editors() -> None:
    document = canvas({"a": node("Message", {"content": ["x"], "contnt": 1, "llm_filter": "x"})})
    assert [d.pointer for d in diagnostics_of(document, "params-unknown")] == ["/components/a/obj/params/contnt"]


def test_a_similar_name_is_suggested_for_an_unknown_parameter() -> None:
    document = canvas({"a": node("Message", {"content": ["x"], "contnt": 1, "zzzz": 1})})
    assert [d.hint for d in diagnostics_of(document, "params-unknown")] == [
        "Did you mean content?",
        "Correct the name, or remove it.",
    ]


def test_an_invalid_value_is_shown_once() -> None:
    document = canvas({"s": switch(["a"], ["a"], operator="is_so"), "a": text()})
    (diagnostic,) = diagnostics_of(document, "params-invalid")
    assert diagnostic.message.count("'is_so'") == 1
    (other,) = diagnostics_of(
        canvas({"a": node("ListOperations", {"query": "sys.query", "operations": 5})}), "params-invalid"
    )
    assert other.message.endswith("It is 5.")


def test_unknown_parameters_of_many_components_take_linear_time() -> None:
    names = {f"contents_{i}": 1 for i in range(20)}
    components = {f"m{i}": node("Message", {"content": ["x"], **names}) for i in range(500)}
    start_s = time.process_time()
    check_canvas(canvas(components, list(components)), CATALOG)
    assert time.process_time() - start_s < 10


def test_references_are_collected_with_their_paths() -> None:
    plan = plan_of(canvas({"a": node("Message", {"content": ["{sys.query}", "x {begin@y} {sys.query}"]})}))
    assert [(r.text, path) for r, path in plan.nodes[NodeId("a")].references] == [
        ("sys.query", ("content", 0)),
        ("begin@y", ("content", 1)),
        ("sys.query", ("content", 1)),
    ]


def test_aliases_are_references_only_inside_an_iteration() -> None:
    plan = plan_of(canvas({"a": node("Message", {"content": ["{item}"]})}))
    assert plan.nodes[NodeId("a")].references == ()


def test_declared_outputs_are_those_of_model_and_document() -> None:
    params = {"content": ["x"], "outputs": {"extra": {"type": "string", "value": ""}}}
    assert plan_of(canvas({"a": node("Message", params)})).nodes[NodeId("a")].outputs == (
        "content",
        "downloads",
        "extra",
    )


def test_unsupported_parameters_are_reported() -> None:
    params = {"retrieval_from": "memory", "query": "x"}
    assert len(diagnostics_of(canvas({"a": node("Retrieval", params)}), "params-unsupported")) == 1


def with_params(component: dict[str, Any], **params: Any) -> dict[str, Any]:
    component["obj"]["params"].update(params)
    return component


@each_row(
    "components",
    [
        {
            "s": with_params(switch(["a"], ["b"], operator="~~")),
            "a": text(["j"]),
            "b": text(["j"]),
            "j": text([], "{a@result}{b@result}"),
        },
        {
            "l": node("Loop", {"maximum_loop_count": -1}, ["after"]),
            "li": node("LoopItem", {}, ["b"], parent_id="l"),
            "b": text(parent_id="l"),
            "after": text([], "{l@x}{b@result}"),
        },
        {
            "it": node("Iteration", {"items_ref": ""}, ["after"]),
            "ii": node("IterationItem", {}, ["b"], parent_id="it"),
            "b": node("Message", {"content": []}, ["c"], parent_id="it"),
            "c": text([], "{item}{b@content}", parent_id="it"),
            "after": text([], "{it@x}"),
        },
        {
            "w": node("Warp", {}, ["after"]),
            "wi": node("LoopItem", {}, ["b"], parent_id="w"),
            "b": text(parent_id="w"),
            "after": text(),
        },
        {"a": text(["s"]), "s": with_params(switch(["a"], ["end"], operator="~~")), "end": text()},
    ],
)
def test_consequences_of_invalid_params_are_not_reported(components: dict[str, Any]) -> None:
    _, diagnostics = check_canvas(canvas(components), CATALOG)
    codes = {d.code for d in diagnostics if d.severity == "error" or d.code != "flow-cycle"}
    assert codes <= {"params-invalid", "component-unknown"}


@each_row("name", EDITOR_FIELDS)
def test_fields_that_the_editor_of_ragflow_writes_are_not_reported(name: str) -> None:
    spec = CATALOG.get(name)
    assert spec is not None
    fields = spec.params.model_fields
    params: dict[str, Any] = {key: "sys.query" for key, field in fields.items() if field.is_required()}
    params |= {"category_description": {"a": {"to": ["a"]}}} if name == "Categorize" else {}
    params |= (
        {"conditions": [{"items": [{"cpn_id": "sys.query", "operator": "empty"}], "to": ["a"]}]}
        if name == "Switch"
        else {}
    )
    params |= {"groups": [{"group_name": "g", "variables": ["sys.query"]}]} if name == "VariableAggregator" else {}
    params |= {key: "x" for key in EDITOR_FIELDS[name] if key not in fields}
    findings = check_canvas(canvas({"a": node(name, params)}), CATALOG)[1]
    assert not [
        d for d in findings if "has no parameter" in d.message or (d.severity, d.code) == ("error", "params-invalid")
    ]


def test_fields_of_the_editor_are_not_reported_in_a_tool_either() -> None:
    tool = {"component_name": "TavilySearch", "name": "t", "params": {"include_images": False, "include_imges": False}}
    document = canvas({"a": node("Agent", {"llm_id": "m@P", "tools": [tool]})})
    assert [d.pointer for d in diagnostics_of(document, "params-unknown")] == [
        "/components/a/obj/params/tools/0/params/include_imges"
    ]


@pytest.mark.parametrize("params", [{}, {"query": ""}, {"query": None}])
def test_a_node_without_the_query_that_it_needs_is_reported(params: dict[str, Any]) -> None:
    search = {"dataset_ids": ["begin@set"], **params}
    (found,) = diagnostics_of(canvas({"a": node("Retrieval", search)}), "params-unsupported")
    assert (found.severity, found.message) == ("warning", "Retrieval has no query, so the node does nothing.")
    tools = [{"component_name": "Retrieval", "name": "R", "params": search}]
    assert not diagnostics_of(canvas({"a": node("Agent", {"llm_id": "m@T", "tools": tools})}), "params-unsupported")
    assert not diagnostics_of(canvas({"a": node("Wikipedia", {})}), "params-unsupported")


@pytest.mark.parametrize("name", ["Begin", "UserFillUp"])
def test_a_parser_for_files_is_reported_because_it_has_no_effect(name: str) -> None:
    def found(layout: str | None) -> list[tuple[str, str]]:
        params = {"layout_recognize": layout, "inputs": {"doc": {"name": "Doc", "type": "file"}}}
        id_ = "begin" if name == "Begin" else "form"
        graph = canvas({id_: node(name, params, ["m"]), "m": node("Message", {"content": ["x"]})})
        return [(one.severity, one.message) for one in diagnostics_of(graph, "params-unsupported")]

    for layout in ("MinerU", "DeepDOC", "some-vision-model@OpenAI"):
        message = f"layout_recognize {layout!r} has no effect: scanned pages and images have no text."
        assert found(layout) == [("info", message)]
    for layout in ("", None, "Plain Text"):
        assert found(layout) == []


def test_a_body_that_only_the_next_ragflow_sends_is_reported() -> None:
    params = {"url": "https://a.example", "method": "post", "body": '{"a": 1}', "content_type": "application/json"}
    graph = canvas({"a": node("Invoke", params)})
    found = {one.pointer.rpartition("/")[2]: one for one in diagnostics_of(graph, "params-unsupported")}
    assert found.keys() == {"body", "content_type"}
    assert found["body"].severity == "warning"
    assert found["body"].message == "The request is sent without 'body', which only RAGFlow 1.0 reads."
    assert not diagnostics_of(graph, "params-unknown")
