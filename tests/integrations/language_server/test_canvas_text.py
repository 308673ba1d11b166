import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.integrations.language_server.canvas_text import BOM, MAX_CHARS, CanvasText
from ragflow_lg.integrations.language_server.open_document import MAX_FINDINGS, place_findings
from ragflow_lg.integrations.language_server.text_positions import TextPosition, TextPositions, Units
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CANVAS, CATALOG, TEXT, offset_of


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


def test_a_byte_order_mark_moves_nothing() -> None:
    marked = CanvasText(BOM + TEXT)
    assert marked.components["begin"].key.start == CANVAS.components["begin"].key.start + 1


def test_texts_that_are_too_long_have_no_components() -> None:
    assert CanvasText(TEXT + " " * MAX_CHARS).components == {}


LINES = st.text(st.sampled_from("aé你🎉\n\r\u2028\x0b\ud800"), max_size=30)
UNITS: st.SearchStrategy[Units] = st.sampled_from(("utf-8", "utf-16", "utf-32"))
WIDTHS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def by_hand(text: str, offset: int, units: Units) -> TextPosition:
    """Count as the protocol says: lines, and code units since the line began."""
    ends = [match.end() for match in re.finditer(r"\r\n?|\n", text) if match.end() <= offset]
    since = text[ends[-1] if ends else 0 : offset]
    return TextPosition(len(ends), len(since.encode(CODECS[units], "surrogatepass")) // WIDTHS[units])


@given(LINES, UNITS)
def test_positions_are_those_of_the_protocol(text: str, units: Units) -> None:
    positions = TextPositions(text, units)
    for offset in range(len(text) + 1):
        if text[max(offset - 1, 0) : offset + 1] == "\r\n" and offset:
            continue  # no cursor stands in a line end
        position = positions.position(offset)
        assert position == by_hand(text, offset, units)
        assert positions.offset(*position) == offset


@each_row(("character", "offset"), [(0, 0), (1, 0), (2, 1), (3, 2), (9, 2)])
def test_a_position_inside_a_character_is_its_start(character: int, offset: int) -> None:
    assert TextPositions("🎉x\ny").offset(0, character) == offset


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
