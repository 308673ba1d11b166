import time

from ragflow_lg.base import thinking
from ragflow_lg.base.thinking import AnswerPart, ThinkingSplitter, split_thoughts, strip_thinking
from tests.harness.rows import each_row, read_rows

MARKS = {"<": AnswerPart("", "start"), ">": AnswerPart("", "end"), "/": AnswerPart("", "unopened")}


def parts_of(*texts: str) -> list[AnswerPart]:
    """Return parts of an answer: marks by their signs, and texts."""
    return [MARKS.get(text) or AnswerPart(text) for text in texts]


def split(*pieces: str) -> list[AnswerPart]:
    splitter = ThinkingSplitter()
    return [*(part for piece in pieces for part in splitter.feed(piece)), *splitter.finish()]


@each_row(("pieces", "expected"), read_rows("streamed_thinking"))
def test_pieces_are_split_at_the_tags(pieces: list[str], expected: list[str]) -> None:
    assert split(*pieces) == parts_of(*expected)


@each_row(
    "answer",
    [
        "<thinking>why [not]</thinking>Yes",
        "\n[THINK]why [not][/THINK]Yes",
        "◁think▷why [not]◁/think▷Yes",
        "<seed:think>why [not]</seed:think>Yes",
        "<|channel|>analysis<|message|>why [not]<|channel|>final<|message|>Yes",
    ],
)
def test_other_marks_that_open_an_answer_are_thinking(answer: str) -> None:
    assert split_thoughts(answer) == ("why [not]", "\nYes" if answer[0] == "\n" else "Yes")
    for size in (1, 2, 3, 7):
        parts = split(*(answer[i : i + size] for i in range(0, len(answer), size)))
        assert "".join(part.source for part in parts).strip() == "<think>why [not]</think>Yes"


@each_row(
    "answer", ["Use <thinking>a</thinking>.", "`[THINK]`", "<thinkers>", "<thinkin", "[", "[THIN", "A ◁think▷b◁/think▷"]
)
def test_other_marks_elsewhere_are_text(answer: str) -> None:
    assert strip_thinking(answer) == answer
    assert "".join(part.text for part in split(*answer)) == answer
    for opening in ("<thinking>", "[THINK]", "◁think▷"):
        assert "did not end" in thinking.find_thinking_problem(f"{opening}hm, [/")


QUOTED = [
    ("Write `</think>` at the end.", ""),
    ("Tags: “<think>”, '</think>' and \"</think>\".", ""),
    ("So:\n```\nhm</think>\nYes\n```\nThat is all.", ""),
    ("~~~xml\n<think>hm</think>\n~~~", ""),
    ("I quote `</think>`, well.</think>`Yes`", "I quote `</think>`, well."),
    ("```\ncode\n```\nhm</think>Yes", "```\ncode\n```\nhm"),
]


@each_row(("answer", "thought"), QUOTED)
def test_a_tag_in_quotes_or_in_code_is_text(answer: str, thought: str) -> None:
    assert split_thoughts(answer)[0] == thought
    for size in (1, 2, 3, 7):
        parts = split(*(answer[i : i + size] for i in range(0, len(answer), size)))
        assert [part.mark for part in parts if part.mark] == (["unopened"] if thought else [])
        assert "".join(part.source for part in parts) == answer


def test_closing_tags_withdraw_a_few_times_only() -> None:
    parts = split("a</think>" * 100 + "b")
    assert 1 <= sum(part.mark == "unopened" for part in parts) <= 10
    assert "</think>" not in "".join(part.text for part in parts)


def test_a_reasoning_channel_is_all_thinking() -> None:
    splitter = ThinkingSplitter()
    parts = [
        *splitter.feed("why </think>", is_reasoning=True),
        *splitter.feed("", is_reasoning=False),
        *splitter.feed(" more", is_reasoning=True),
        *splitter.feed("so <th"),
        *splitter.feed("again", is_reasoning=True),
        *splitter.feed("", is_reasoning=True),
        *splitter.finish(),
    ]
    assert parts == parts_of("<", "why </think>", " more", ">", "so ", "<th", "<", "again")
    splitter = ThinkingSplitter()
    parts = [*splitter.feed("<think>a"), *splitter.feed("b", is_reasoning=True), *splitter.feed("c")]
    assert parts == parts_of("<", "a", "b", ">", "c")


@each_row(("answer", "expected"), read_rows("hidden_thinking"))
def test_thinking_is_stripped(answer: str, expected: str) -> None:
    assert strip_thinking(answer) == expected


def test_thinking_that_was_not_opened_goes_with_its_tag() -> None:
    assert thinking.strip_tags("hm</think>Yes") == "Yes"
    assert thinking.strip_tags("<think>hm</think>Yes") == "hmYes"


def test_a_hostile_answer_takes_linear_time() -> None:
    began = time.process_time()
    assert strip_thinking("<think>" * 40_000).startswith("<think>")
    assert len(split("<" * 40_000)) >= 1
    assert time.process_time() - began < 5
