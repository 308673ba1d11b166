import json

from ragflow_lg.dsl_compiler import convert_source
from ragflow_lg.integrations.language_server.canvas_text import BOM, MAX_CHARS, CanvasText
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CANVAS, TEXT, offset_of


def test_components_have_their_place_name_and_region() -> None:
    assert list(CANVAS.components)[:2] == ["begin", "Switch:Kind"]
    label = CANVAS.components["StringTransform:Label"]
    assert TEXT[label.key.start : label.key.end] == "StringTransform:Label"
    assert (label.name, label.parent) == ("StringTransform", "Iteration:Lines")
    assert CANVAS.titles["LLM:Order"] == "Read the order 🎉"
    assert (CANVAS.base, CANVAS.version) == (("dsl",), 1)


def test_mentions_are_ids_and_references() -> None:
    found = {(TEXT[m.place.start : m.place.end], m.component, m.is_key) for m in CANVAS.mentions}
    assert ("LLM:Order@structured.lines", "LLM:Order", False) in found
    assert ("sys.query", "", False) in found
    assert ("Switch:Kind", "Switch:Kind", True) in found
    for mention in CANVAS.mentions:
        if mention.id_place is not None:
            assert TEXT[mention.id_place.start : mention.id_place.end] == mention.component


def test_a_text_that_only_equals_an_id_names_nothing() -> None:
    document = json.loads(TEXT)
    document["dsl"]["components"]["LLM:Other"]["obj"]["params"]["sys_prompt"] = "begin"
    text = json.dumps(document)
    assert CanvasText(text).mention_at(offset_of('"sys_prompt": "|begin', "prolgue", text)) is None


def test_escaped_references_are_found_where_they_are_typed() -> None:
    text = '{"components": {"a": {"x": "\\n{\\u0062egin@a\\u00e9}"}, "begin": {}}}'
    mention = CanvasText(text).mention_at(text.index("\\u0062") + 2)
    assert mention is not None
    assert text[mention.place.start : mention.place.end] == "\\u0062egin@a\\u00e9"
    assert mention.component == "begin"


@each_row(
    "text", ["", "{", '{"components": {', "[1]", "null", '"x"', '{"components": 5}', '{"components": [{}]}', "{}" * 2]
)
def test_other_texts_have_no_components(text: str) -> None:
    canvas = CanvasText(text)
    assert (canvas.components, canvas.mentions, canvas.titles) == ({}, [], {})


def test_a_byte_order_mark_moves_nothing() -> None:
    marked = CanvasText(BOM + TEXT)
    assert marked.components["begin"].key.start == CANVAS.components["begin"].key.start + 1


def test_texts_that_are_too_long_have_no_components() -> None:
    assert CanvasText(TEXT + " " * MAX_CHARS).components == {}


def test_dsl_v2_is_recognized_with_its_titles() -> None:
    canvas = CanvasText(json.dumps(convert_source(TEXT, "v2")))
    assert canvas.version == 2
    assert len(canvas.components) == 8
    assert "Read the order 🎉" in canvas.titles.values()
