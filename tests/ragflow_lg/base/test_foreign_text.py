"""Texts of other programs in messages of ours."""

from ragflow_lg.base.errors import foreign_line


def test_the_longer_of_two_secrets_is_replaced_first() -> None:
    assert foreign_line("key abcdefgh and abcd", ["abcd", "abcdefgh"], 100) == "key *** and ***"


def test_an_empty_or_short_secret_changes_nothing() -> None:
    assert foreign_line("an error", ["", "or"], 100) == "an error"


def test_the_text_is_one_line_of_limited_length() -> None:
    assert foreign_line(" a\n\tb  c ", [], 4) == "a b "
    assert len(foreign_line("x" * 10_000_000, [], 50)) == 50


def test_a_secret_at_the_limit_is_not_cut_into_a_part() -> None:
    assert "sec" not in foreign_line("x" * 47 + "secretsecret", ["secretsecret"], 50)
