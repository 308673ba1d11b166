import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, text


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


@pytest.mark.parametrize(
    "name", ["Generate", "Answer", "Relevant", "RewriteQuestion", "KeywordExtract", "Concentrator", "Template"]
)
def test_each_legacy_component_is_reported_with_its_replacement(name: str) -> None:
    (diagnostic,) = diagnostics_of(canvas({"old": node(name)}), "legacy-component")
    assert diagnostic.pointer == "/components/old"
    assert "Replaced by" in diagnostic.hint


def test_legacy_components_of_a_graph_are_reported() -> None:
    document = {
        "graph": {"nodes": [{"id": "begin", "data": {"label": "Begin"}}, {"id": "g", "data": {"label": "Generate"}}]}
    }
    assert diagnostics_of(document, "legacy-component")[0].pointer == "/graph/nodes/1"
