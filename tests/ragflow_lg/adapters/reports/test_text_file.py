"""Plain text files."""

from ragflow_lg.adapters.reports.markdown_reader import read_markdown
from ragflow_lg.adapters.reports.text_file import write_text
from tests.harness.rows import each_row


@each_row(
    ("markdown", "text"),
    [
        ("# A *b*\n\nc `d`<br>e", "A b\n\nc d\ne\n"),
        ("[a](https://b) https://c [https://d](https://d)", "a (https://b) https://c https://d\n"),
        ("3. a\n   - b\n\n4. c", "3. a\n\n   - b\n4. c\n"),
        ("> a\n> > b", "> a\n> \n> > b\n"),
        ("```\na\n```", "    a\n"),
        ("| a | 数量 |\n|---|--:|\n| 長い | 5 |", "a     数量\n----  ----\n長い     5\n"),
        ("![a](b) $x^2$", "[a] x^2\n"),
        ("---", "-" * 40 + "\n"),
    ],
)
def test_blocks(markdown: str, text: str) -> None:
    assert write_text(read_markdown(markdown), "").decode() == text


def test_the_time_is_the_first_line() -> None:
    assert write_text(read_markdown("a"), "Generated: 2026").decode() == "Generated: 2026\n\na\n"
