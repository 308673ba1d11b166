import pytest

from ragflow_lg.base.thinking import AnswerPart, ThinkingSplitter, split_thinking, strip_thinking

START, END = AnswerPart("", "start"), AnswerPart("", "end")


def split(*pieces: str) -> list[AnswerPart]:
    splitter = ThinkingSplitter()
    return [*(part for piece in pieces for part in splitter.feed(piece)), *splitter.finish()]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (
            ["<think>a b", " c</think>", "\n", "A"],
            [START, AnswerPart("a b"), AnswerPart(" c"), END, AnswerPart("\n"), AnswerPart("A")],
        ),
        (
            ["<think>1</think>", "A", "<think>2</think>"],
            [START, AnswerPart("1"), END, AnswerPart("A"), START, AnswerPart("2"), END],
        ),
        (["<think>", "one ", "two"], [START, AnswerPart("one "), AnswerPart("two")]),
        (["<th", "ink>", "why", "</thi", "nk>", "because"], [START, AnswerPart("why"), END, AnswerPart("because")]),
        (["a <", "b"], [AnswerPart("a "), AnswerPart("<b")]),
        (["a <thin"], [AnswerPart("a "), AnswerPart("<thin")]),
        (["haha</think>"], [AnswerPart("haha</think>")]),
        ([], []),
    ],
)
def test_pieces_are_split_at_the_tags(pieces: list[str], expected: list[AnswerPart]) -> None:
    assert split(*pieces) == expected


def test_a_whole_answer_is_split_like_its_pieces() -> None:
    assert split_thinking("<think>hm</think>Yes <thin") == [
        START,
        AnswerPart("hm"),
        END,
        AnswerPart("Yes "),
        AnswerPart("<thin"),
    ]


def test_the_size_of_the_pieces_makes_no_difference() -> None:
    answer = "<think>a<b</think>c</th<think>d</think>"
    for size in range(1, len(answer)):
        parts = split(*(answer[i : i + size] for i in range(0, len(answer), size)))
        assert "".join(part.source for part in parts) == answer
        assert [part.mark for part in parts if part.mark] == ["start", "end", "start", "end"]


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
    assert parts == [
        START,
        AnswerPart("why </think>"),
        AnswerPart(" more"),
        END,
        AnswerPart("so "),
        AnswerPart("<th"),
        START,
        AnswerPart("again"),
    ]


def test_a_reasoning_channel_inside_tags_does_not_open_them_twice() -> None:
    splitter = ThinkingSplitter()
    parts = [*splitter.feed("<think>a"), *splitter.feed("b", is_reasoning=True), *splitter.feed("c")]
    assert parts == [START, AnswerPart("a"), AnswerPart("b"), END, AnswerPart("c")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("plain", "plain"),
        ("<think>hmm</think>Because", "Because"),
        ("<think>one</think>A. <think>two</think>B.", "A. B."),
        ("hmm</think>Because", "Because"),
        ("<think>never closed", "<think>never closed"),
        ("", ""),
    ],
)
def test_thinking_is_stripped(answer: str, expected: str) -> None:
    assert strip_thinking(answer) == expected


def test_a_hostile_answer_takes_linear_time() -> None:
    assert strip_thinking("<think>" * 300_000).startswith("<think>")
    assert len(split("<" * 200_000)) >= 1
