from typing import Any

import pytest

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


@pytest.mark.parametrize(
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
