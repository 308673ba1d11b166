import pytest

from ragflow_lg.dsl_compiler.drawing.text_size import shorten_text, text_width, wrap_text


def test_narrow_letters_are_narrower() -> None:
    assert text_width("illi", 10) < text_width("aaaa", 10) < text_width("MMMM", 10) < text_width("知识知识知", 10)


@pytest.mark.parametrize("text", ["word " * 40, "知识" * 40, "x" * 200, "a-b/c:" * 30])
def test_texts_fit_their_room(text: str) -> None:
    lines = wrap_text(text, 120, 13, 2)
    assert len(lines) == 2
    assert lines[1].endswith("…")
    assert all(text_width(line, 13) <= 120 for line in (*lines, shorten_text(text, 120, 13)))


def test_a_short_text_stays_whole() -> None:
    assert wrap_text("Ask for the size", 200, 13, 2) == ("Ask for the size",)
    assert wrap_text("Ask for the size", 70, 13, 2) == ("Ask for the", "size")
    assert wrap_text("", 70, 13, 2) == ("",)


def test_invisible_characters_are_removed() -> None:
    assert shorten_text("a\u202eb\n c\x1b", 200, 13) == "a b c"
