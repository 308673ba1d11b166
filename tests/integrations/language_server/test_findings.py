import json

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.integrations.language_server.canvas_text import CanvasText
from ragflow_lg.integrations.language_server.open_document import MAX_FINDINGS, place_findings
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CATALOG, TEXT


def found_in(text: str) -> list[tuple[str, str]]:
    """Return the code and the marked text of each finding."""
    findings = place_findings(CanvasText(text), check_canvas(text, CATALOG)[1])
    return [(f.diagnostic.code, text[f.place.start : f.place.end]) for f in findings]


@each_row(
    ("old", "new", "expected"),
    [
        ('"prolgue"', '"prolgue"', ("params-unknown", "prolgue")),
        ("{env.shop}", "{env.shpo}", ("reference-unknown-global", "env.shpo")),
        ("🎉 and {{sys.query}}", "🎉 and {{sys.query2}}", ("reference-unknown-global", "sys.query2")),
        ('"LLM:Order@structured.lines"', '"LLM:Order@contnt"', ("reference-unknown-output", None)),
        ('"component_name": "Switch"', '"component_name": "Swich"', ("component-unknown", '"Swich"')),
        ('"exception_goto": [', '"exception_goto": [ "gone",', ("target-unknown", "exception_goto")),
        ('"prompts": [', '"prompts": [,', ("json-invalid", ",")),
        ('"type": "line",', '"type": "line" ', ("json-invalid", '"optional"')),
    ],
)
def test_findings_mark_what_is_wrong(old: str, new: str, expected: tuple[str, str | None]) -> None:
    found = found_in(TEXT.replace(old, new, 1))
    code, marked = expected
    assert code in [c for c, _ in found]
    assert marked is None or expected in found


def test_an_object_is_marked_by_its_key() -> None:
    text = json.dumps(canvas({"a": node("Message", {"content": ["x"]}), "lost": node("Message", {"content": ["x"]})}))
    assert ("node-unreachable", "lost") in found_in(text)


@each_row("text", ["", " ", "{", '{"components": ', '{"a": "', "\n\n{\n"])
def test_a_text_that_ends_too_early_is_marked_at_its_end(text: str) -> None:
    ((finding),) = place_findings(CanvasText(text), check_canvas(text, CATALOG)[1])
    assert finding.diagnostic.code == "json-invalid"
    assert len(text) - 2 <= finding.place.end <= len(text)


def test_repeated_keys_are_marked() -> None:
    text = TEXT.replace('"llm_id": "demo",', '"llm_id": "demo", "llm_id": "demo",', 1)
    assert ("json-duplicate-key", '"llm_id"') in found_in(text)


def test_the_number_of_findings_is_limited() -> None:
    components = {f"m{n}": node("Message", {"content": ["x"]}) for n in range(MAX_FINDINGS + 50)}
    text = json.dumps(canvas({"a": node("Message", {"content": ["x"]}), **components}))
    assert len(found_in(text)) == MAX_FINDINGS
