import time

from ragflow_lg.runs.speaker import MAX_SENTENCE_CHARS, SentenceCutter, clean_spoken, split_spoken
from tests.harness.rows import each_row, read_rows


def cut(*pieces: str) -> list[list[str]]:
    cutter = SentenceCutter()
    return [*(cutter.feed(piece) for piece in pieces), cutter.finish()]


def test_sentences_are_cut_while_they_arrive() -> None:
    assert cut("Hello wor", "ld. It costs 3", ".14 euros! Do", " you see", "?") == [
        [],
        ["Hello world."],
        ["It costs 3.14 euros!"],
        [],
        [],
        ["Do you see?"],
    ]
    assert cut("你好。", "再见！”她说", "\n") == [[], ["你好。", "再见！”"], ["她说"], []]
    assert cut("Run this:\n```python\nprint(1)\n```\nDone.\n") == [["Run this:", "Done."], []]


@each_row(("text", "spoken"), read_rows("spoken_text"))
def test_marks_are_not_spoken(text: str, spoken: str) -> None:
    assert clean_spoken(text) == spoken


def test_long_sentences_are_cut_at_blanks() -> None:
    parts = split_spoken("word " * 300)
    assert all(len(part) <= MAX_SENTENCE_CHARS for part in parts)
    assert " ".join(parts) == ("word " * 300).strip()
    assert split_spoken("x" * 1_200) == ["x" * 500, "x" * 500, "x" * 200]


@each_row("part", ["[", "![", "<a", "* ", "`", "a", "http://", "[a](", "\n", " "])
def test_hostile_texts_take_linear_time(part: str) -> None:
    text = part * (50_000 // len(part))
    start = time.process_time()
    clean_spoken(text)
    assert time.process_time() - start < 2.0
