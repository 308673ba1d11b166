from __future__ import annotations

import pytest

from ragflow_lg.base.thinking import Part, ThinkingSplitter, split_thinking, without_thinking

START, END = Part("", "start"), Part("", "end")


def split(*pieces: str) -> list[Part]:
    splitter = ThinkingSplitter()
    return [*(part for piece in pieces for part in splitter.feed(piece)), *splitter.finish()]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<think>a b", " c</think>", "\n", "A"], [START, Part("a b"), Part(" c"), END, Part("\n"), Part("A")]),
        (["<think>1</think>", "A", "<think>2</think>"], [START, Part("1"), END, Part("A"), START, Part("2"), END]),
        (["<think>", "one ", "two"], [START, Part("one "), Part("two")]),
        (["<th", "ink>", "why", "</thi", "nk>", "because"], [START, Part("why"), END, Part("because")]),
        (["a <", "b"], [Part("a "), Part("<b")]),
        (["a <thin"], [Part("a "), Part("<thin")]),
        (["haha</think>"], [Part("haha</think>")]),
        ([], []),
    ],
)
def test_pieces_are_split_at_the_tags(pieces: list[str], expected: list[Part]) -> None:
    assert split(*pieces) == expected


def test_a_whole_answer_is_split_like_its_pieces() -> None:
    assert split_thinking("<think>hm</think>Yes <thin") == [START, Part("hm"), END, Part("Yes "), Part("<thin")]


def test_any_border_of_pieces_gives_the_same() -> None:
    answer = "<think>a<b</think>c</th<think>d</think>"
    for size in range(1, len(answer)):
        parts = split(*(answer[i : i + size] for i in range(0, len(answer), size)))
        assert "".join(part.source for part in parts) == answer
        assert [part.mark for part in parts if part.mark] == ["start", "end", "start", "end"]


def test_a_reasoning_channel_is_thinking_as_it_stands() -> None:
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
    assert parts == [START, Part("why </think>"), Part(" more"), END, Part("so "), Part("<th"), START, Part("again")]


def test_a_reasoning_channel_inside_tags_does_not_open_them_twice() -> None:
    splitter = ThinkingSplitter()
    parts = [*splitter.feed("<think>a"), *splitter.feed("b", is_reasoning=True), *splitter.feed("c")]
    assert parts == [START, Part("a"), Part("b"), END, Part("c")]


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
def test_thinking_is_left_out(answer: str, expected: str) -> None:
    assert without_thinking(answer) == expected


def test_a_hostile_answer_takes_linear_time() -> None:
    assert without_thinking("<think>" * 300_000).startswith("<think>")
    assert len(split("<" * 200_000)) >= 1
