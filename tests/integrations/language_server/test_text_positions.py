import re

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.integrations.language_server.text_positions import TextPosition, TextPositions, Units
from tests.harness.rows import each_row

TEXT = st.text(st.sampled_from("aé你🎉\n\r\u2028\x0b\ud800"), max_size=30)
UNITS: st.SearchStrategy[Units] = st.sampled_from(("utf-8", "utf-16", "utf-32"))
WIDTHS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def by_hand(text: str, offset: int, units: Units) -> TextPosition:
    """Count as the protocol says: lines, and code units since the line began."""
    ends = [match.end() for match in re.finditer(r"\r\n?|\n", text) if match.end() <= offset]
    since = text[ends[-1] if ends else 0 : offset]
    return TextPosition(len(ends), len(since.encode(CODECS[units], "surrogatepass")) // WIDTHS[units])


@given(TEXT, UNITS)
def test_positions_are_those_of_the_protocol(text: str, units: Units) -> None:
    positions = TextPositions(text, units)
    for offset in range(len(text) + 1):
        if text[max(offset - 1, 0) : offset + 1] == "\r\n" and offset:
            continue  # no cursor stands in a line end
        position = positions.position(offset)
        assert position == by_hand(text, offset, units)
        assert positions.offset(*position) == offset


@given(TEXT, UNITS, st.integers(-2, 50), st.integers(-2, 50))
def test_every_position_has_an_offset_in_the_text(text: str, units: Units, line: int, character: int) -> None:
    assert 0 <= TextPositions(text, units).offset(line, character) <= len(text)


@each_row(("character", "offset"), [(0, 0), (1, 0), (2, 1), (3, 2), (9, 2)])
def test_a_position_inside_a_character_is_its_start(character: int, offset: int) -> None:
    assert TextPositions("🎉x\ny").offset(0, character) == offset
