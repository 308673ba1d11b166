import json

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.integrations.language_server.canvas_text import read_string


@given(st.text(max_size=20), st.booleans())
def test_the_text_is_that_of_the_json_reader(text: str, is_ascii: bool) -> None:
    source = json.dumps(text, ensure_ascii=is_ascii)
    string = read_string(source, 1, len(source) - 1)
    assert string.text == text
    assert len(string.offsets) == len(text) + 1


@given(st.text(max_size=20), st.data())
def test_places_point_to_the_characters(text: str, data: st.DataObject) -> None:
    source = json.dumps(text)
    string = read_string(source, 1, len(source) - 1)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first, last = string.place(start, end)
    assert json.loads(f'"{source[first:last]}"') == text[start:end]


@given(st.text(st.sampled_from('\\u0d8a"n🎉'), max_size=12))
def test_a_string_may_be_cut_anywhere(source: str) -> None:
    string = read_string(source, 0, len(source))
    assert len(string.offsets) == len(string.text) + 1
    assert list(string.offsets) == sorted(string.offsets)
