from typing import Any

from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text
from tests.harness.rows import each_row

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}, "tags": {"type": "array"}}}
LLM = node("LLM", {"llm_id": "m@T", "outputs": {"structured": SCHEMA}}, ["x"])


def findings(code: str, component: dict[str, Any]) -> list[tuple[str, str]]:
    return [(d.message, d.hint) for d in diagnostics_of(canvas({"llm": LLM, "x": component}), code)]


def test_an_unknown_entry_is_reported_with_the_nearest_one() -> None:
    ((message, hint),) = findings("reference-unknown-entry", text((), "{llm@structured.titl}"))
    assert message == "'llm@structured.titl' has no entry 'titl'; its value is empty."
    assert hint == "Did you mean title?"
    assert not findings("reference-unknown-entry", text((), "{llm@structured.title} {llm@structured.tags.0}"))
    assert findings("reference-unknown-entry", text((), "{llm@structured.tags.0.x} {llm@content.a}")) == []


def test_an_open_schema_allows_other_entries() -> None:
    open_schema = {**SCHEMA, "additionalProperties": True}
    llm = node("LLM", {"llm_id": "m@T", "outputs": {"structured": open_schema}}, ["x"])
    document = canvas({"llm": llm, "x": text((), "{llm@structured.other}")})
    assert not diagnostics_of(document, "reference-unknown-entry")


@each_row(
    ("component", "message"),
    [
        (
            node("ListOperations", {"query": "llm@content"}),
            "'llm@content' is text; ListOperations needs a list and fails.",
        ),
        (node("ListOperations", {"query": "llm@structured.tags"}), ""),
        (switch(["y"], ["y"], ">", "llm@structured.tags"), "'llm@structured.tags' is a list; > is never true for it."),
        (switch(["y"], ["y"], ">", "llm@structured.title"), ""),
        (
            node("StringTransform", {"method": "split", "split_ref": "llm@structured"}),
            "'llm@structured' is an object; only text can be split, so the node fails.",
        ),
        (node("StringTransform", {"method": "split", "split_ref": "llm@unknown"}), ""),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(component: dict[str, Any], message: str) -> None:
    components = {"llm": LLM, "x": component, "y": text()}
    assert [d.message for d in diagnostics_of(canvas(components), "value-type")] == ([message] if message else [])
