import json
import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from tests.architecture.sources import ROOT
from tests.fakes.canvas import CATALOG, assert_findings, canvas, diagnostics_of, node, plan_of, switch, text
from tests.harness.rows import each_row

EDITOR_FIELDS: dict[str, list[str]] = json.loads((ROOT / "tests/fixtures/editor_fields.json").read_text())
"""The names of the fields in the forms of RAGFlow's editor, by component."""
UNSUPPORTED, UNKNOWN = "params-unsupported", "params-unknown"
MISPLACED = ("auto_play", "items", "llm_filter", "meta", "operator", "parameter", "tips", "user_id", "variable")
REQUEST = {"url": "https://a.example", "method": "post", "body": '{"a": 1}', "content_type": "application/json"}


def agent(tool: str, **params: Any) -> dict[str, Any]:
    return node("Agent", {"llm_id": "m@T", "tools": [{"component_name": tool, "name": "T", "params": params}]})


def retrieval(**params: Any) -> dict[str, Any]:
    return node("Retrieval", {"dataset_ids": ["begin@set"], **params})


def listing(**params: Any) -> dict[str, Any]:
    return node("ListOperations", {"query": "sys.query", **params})


@each_row(
    ("component", "code", "expected"),
    [
        (node("Mesage", {"content": ["x"]}), "component-unknown", ["^error .*Message"]),
        (node("PipelineChunker"), "component-unknown", ["ingestion pipelines"]),
        (node("ManualChunker"), "component-unknown", ["ingestion pipelines"]),
        (node("TokenChunker"), "component-unknown", ["ingestion pipelines"]),
        (node("Webhook"), "component-unknown", ["Begin with the mode Webhook"]),
        (node("YouComSearch"), "component-unknown", ["TavilySearch"]),
        (node("QueryDecompositionRetrieval"), "component-unknown", ["Retrieval as its tool"]),
        (agent("YouComSearch"), "tool-unknown", ["TavilySearch"]),
        (node("ListOperations"), "params-invalid", ["query"]),
        (listing(operations=5), "params-invalid", [r"It is 5\. "]),
        (listing(operations="explode", max_retries=-1), "params-invalid", ["/params/max_retries:", "/operations:"]),
        (switch(["begin"], ["begin"], operator="is_so"), "params-invalid", ["^[^~]*'is_so'(?!.*'is_so')"]),
        (node("Message", {"content": ["x"], "contnt": 1}), UNKNOWN, [r"^warning .*/contnt: .*mean content\?$"]),
        (node("Message", {"content": ["x"], "stremm": False}), UNKNOWN, [r"^warning .*/stremm: .*mean stream\?$"]),
        (node("StringTransform", {"script": "x", **dict.fromkeys(MISPLACED, "x")}), UNKNOWN,
         [f"^warning .*/{key}:" for key in MISPLACED]),
        (node("StringTransform", dict.fromkeys(["debug_inputs", "message_history_window_size"], 1)), UNKNOWN, []),
        (node("Message", {"content": ["x"], "zzzz": 1}), UNKNOWN, [r"Correct the name, or remove it\.$"]),
        (agent("TavilySearch", include_images=False, include_imges=False), UNKNOWN, ["/tools/0/params/include_imges:"]),
        (node("Retrieval", {"retrieval_from": "memory", "query": "x"}), "memory-unknown", [""]),
        *(
            (retrieval(**query), UNSUPPORTED, [r"^warning a .* Retrieval has no query, so the node does nothing\."])
            for query in ({}, {"query": ""}, {"query": None})
        ),
        (agent("Retrieval", dataset_ids=["begin@set"]), UNSUPPORTED, []),
        (node("Wikipedia"), UNSUPPORTED, []),
        (node("Invoke", REQUEST), UNSUPPORTED, []),
        (node("Invoke", REQUEST), UNKNOWN, []),
    ],
)  # fmt: skip
def test_a_name_or_a_value_that_cannot_be_used_is_reported(component: Any, code: str, expected: list[str]) -> None:
    assert_findings(canvas({"a": component}), code, *expected)


def test_the_rest_of_the_canvas_is_still_checked() -> None:
    document = canvas({"a": node("Warp", {}, ["b"]), "b": node("Switch", {"conditions": [], "end_cpn_ids": ["a"]})})
    assert diagnostics_of(document, "component-unknown")
    assert diagnostics_of(document, "params-invalid")


def test_former_names_are_replaced_ignoring_case() -> None:
    assert plan_of(canvas({"a": node("message", {"content": ["x"]})})).nodes[NodeId("a")].spec.name == "Message"
    plan = plan_of(canvas({"DuckDuckGoSearch:A": node("DuckDuckGoSearch", {"query": "sys.query"})}))
    assert plan.nodes[NodeId("DuckDuckGo:A")].spec.name == "DuckDuckGo"
    (tool,) = plan_of(canvas({"a": agent("DuckDuckGoSearch")})).nodes[NodeId("a")].tools
    assert tool.spec.name == "DuckDuckGo"


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


def test_unknown_parameters_of_many_components_take_linear_time() -> None:
    names = {f"contents_{i}": 1 for i in range(20)}
    components = {f"m{i}": node("Message", {"content": ["x"], **names}) for i in range(500)}
    start_s = time.process_time()
    check_canvas(canvas(components, list(components)), CATALOG)
    assert time.process_time() - start_s < 10


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


VALID: dict[str, dict[str, Any]] = {
    "Categorize": {"category_description": {"a": {"to": ["a"]}}},
    "Switch": {"conditions": [{"items": [{"cpn_id": "sys.query", "operator": "empty"}], "to": ["a"]}]},
    "VariableAggregator": {"groups": [{"group_name": "g", "variables": ["sys.query"]}]},
}


@each_row("name", EDITOR_FIELDS)
def test_fields_that_the_editor_of_ragflow_writes_are_not_reported(name: str) -> None:
    spec = CATALOG.get(name)
    assert spec is not None
    fields = spec.params.model_fields
    params: dict[str, Any] = {key: "sys.query" for key, field in fields.items() if field.is_required()}
    params |= VALID.get(name, {})
    params |= {key: "x" for key in EDITOR_FIELDS[name] if key not in fields}
    findings = check_canvas(canvas({"a": node(name, params)}), CATALOG)[1]
    assert not [
        d for d in findings if "has no parameter" in d.message or (d.severity, d.code) == ("error", "params-invalid")
    ]


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
