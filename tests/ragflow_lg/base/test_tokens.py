from ragflow_lg.base.tokens import estimate_tokens, shorten
from tests.harness.rows import each_row


@each_row(
    ("text", "tokens"), [("", 0), ("abc", 1), ("abcde", 2), ("你好", 2), ("你好abcd", 3), ("한글", 2), ("ひ𠀀", 2)]
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@each_row(("tokens", "expected"), [(0, ""), (1, "你"), (2, "你abcd"), (3, "你abcd好"), (9, "你abcd好")])
def test_a_text_is_shortened_at_its_end(tokens: int, expected: str) -> None:
    assert shorten("你abcd好", tokens) == expected
