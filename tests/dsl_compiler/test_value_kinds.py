import pytest

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl.variable_references import parse_reference
from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.value_kinds import find_value_kind
from tests.fakes.canvas import canvas, node

FORM = {"name": {"name": "Name", "type": "line"}, "age": {"name": "Age", "type": "integer"}}


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("sys.query", "text"),
        ("sys.conversation_turns", "other"),
        ("env.word", "text"),
        ("env.list", "other"),
        ("llm@content", "text"),
        ("llm@content.part", "unknown"),
        ("llm@structured", "unknown"),
        ("split@result", "unknown"),
        ("form@name", "text"),
        ("form@age", "unknown"),
        ("m@downloads", "other"),
        ("missing@x", "unknown"),
    ],
)
def test_the_kind_of_a_value(reference: str, kind: str) -> None:
    components = {
        "llm": node("LLM", {}, ["split"]),
        "split": node("StringTransform", {"method": "split", "split_ref": "sys.query"}, ["form"]),
        "form": node("UserFillUp", {"inputs": FORM}, ["m"]),
        "m": node("Message", {"content": ["Hi"]}),
    }
    document = canvas(components, ["llm"])
    document["variables"] = {"word": {"type": "string", "value": "a"}, "list": {"type": "array", "value": [1]}}
    draft = run_passes(Draft(document, "", load_catalog()), Reporter())
    parsed = parse_reference(f"{{{reference}}}")
    assert parsed is not None
    assert find_value_kind(draft, parsed) == kind
