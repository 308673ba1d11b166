import time

from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, text


def test_a_renamed_component_gets_a_new_id() -> None:
    document = canvas(
        {
            "PDFGenerator:Old": node("PDFGenerator", {"content": "x"}, ["a"]),
            "a": text([], "{PDFGenerator:Old@download} {{ PDFGenerator:Old@size }}"),
        }
    )
    _, diagnostics = check_canvas(document, CATALOG)
    assert {d.node for d in diagnostics if d.code == "component-not-yet"} == {"DocGenerator:Old"}
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
