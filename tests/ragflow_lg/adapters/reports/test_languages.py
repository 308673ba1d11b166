from ragflow_lg.adapters.reports.languages import LANGUAGES, describe_missing, is_right_to_left, language_of
from tests.harness.rows import each_row


@each_row("code", LANGUAGES)
def test_each_language_is_recognised_by_its_letters(code: str) -> None:
    assert language_of(f"abc {LANGUAGES[code].sample}") == code


@each_row("text", ["", "abc", "ÄÖü", "привет", "→ ∑"])
def test_other_texts_have_no_language_of_their_own(text: str) -> None:
    assert language_of(text) == ""
    assert not is_right_to_left(text)


@each_row(("text", "expected"), [("م", True), ("12 שלום a", True), ("a م", False), ("漢", False)])
def test_the_first_letter_decides_the_direction(text: str, expected: bool) -> None:
    assert is_right_to_left(text) is expected


def test_missing_characters_are_named_once_and_not_all() -> None:
    sentence = describe_missing("ก" + "".join(chr(code) for code in range(0x4E00, 0x4E20)) + "ก")
    assert "ก 一" in sentence
    assert "and 23 more" in sentence
    assert "Noto Sans Thai for Thai (Debian: fonts-noto-core)" in sentence
    assert describe_missing("ᚠ").count("a font that has them") == 1
