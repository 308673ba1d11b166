import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.integrations.language_server.canvas_text import BOM, MAX_CHARS, CanvasText
from ragflow_lg.integrations.language_server.text_positions import TextPosition, TextPositions, Units
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CANVAS, TEXT, offset_of


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
