import time

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, text


def test_a_renamed_component_gets_a_new_id() -> None:
    document = canvas(
        {
            "PDFGenerator:Old": node("PDFGenerator", {"content": "x"}, ["a"]),
            "a": text([], "{PDFGenerator:Old@download} {{ PDFGenerator:Old@size }}"),
        }
    )
    plan, _ = check_canvas(document, CATALOG)
    assert plan is not None
    assert plan.nodes[NodeId("DocGenerator:Old")].spec.name == "DocGenerator"
    assert not diagnostics_of(document, "reference-unknown-node")
    assert diagnostics_of(document, "document-rewritten")


def test_an_id_stays_if_the_new_one_exists() -> None:
    document = canvas({"PDFGenerator:x": text(["DocGenerator:x"]), "DocGenerator:x": text()})
    assert check_canvas(document, CATALOG)[0] is not None


def test_a_text_of_braces_takes_linear_time() -> None:
    document = canvas(
        {"PDFGenerator:x": text(), "a": text([], "{ " * 100_000 + "{" * 100_000)}, ["PDFGenerator:x", "a"]
    )
    start_s = time.process_time()
    check_canvas(document, CATALOG)
    assert time.process_time() - start_s < 5


@pytest.mark.parametrize(("engine", "tool"), [("tavily", "TavilySearch"), (" DuckDuckGo ", "DuckDuckGo")])
def test_a_web_search_becomes_the_tool_of_its_engine(engine: str, tool: str) -> None:
    entry = {"component_name": "WebSearch", "name": "Web", "params": {"engine": engine, "api_key": "k"}}
    agent = node("Agent", {"llm_id": "m@T", "tools": [entry]}, ["w"])
    search = node("WebSearch", {"engine": engine, "api_key": "k"})
    plan, diagnostics = check_canvas(canvas({"a": agent, "w": search}), CATALOG)
    assert plan is not None
    search_node, agent_node = plan.nodes[NodeId("w")], plan.nodes[NodeId("a")]
    assert (search_node.spec.name, agent_node.tools[0].spec.name) == (tool, tool)
    assert "document-rewritten" in {d.code for d in diagnostics}


@pytest.mark.parametrize("params", [{"engine": "altavista"}, {}, {"engine": None}, {"engine": ["tavily"]}])
def test_a_web_search_with_an_unknown_engine_is_rejected(params: dict[str, object]) -> None:
    entry = {"component_name": "WebSearch", "name": "Web", "params": params}
    agent = node("Agent", {"llm_id": "m@T", "tools": [entry]}, ["w"])
    plan, diagnostics = check_canvas(canvas({"a": agent, "w": node("WebSearch", params)}), CATALOG)
    assert plan is None
    errors = {d.code: d for d in diagnostics if d.severity == "error"}
    assert set(errors) == {"component-unknown", "tool-unknown"}
    assert "Set engine to one of: arxiv, duckduckgo" in errors["tool-unknown"].hint
