import random
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.agents.react_text import ReactReader
from tests.harness.rows import each_row

FRAGMENTS = [
    *("Thought", "Action", "Input", "Observation", "Final Answer", "最终答案", "思考", "行动", "none", "search"),
    *(" ", "\n", "\r\n", "\t", ":", "：", "**", "*", "#", "_", "1", ".", "x", "-", "`", "```json\n"),
    *("{", "}", "[", "]", "(", ")", '"', "\\"),
]


def read(text: str, cuts: Iterable[int] = (), *, is_last: bool = False) -> dict[str, Any]:
    """Parse a text in pieces; return the shown pieces, merged by kind, the calls and the answer."""
    reader = ReactReader(is_last=is_last)
    places = [0, *sorted(cuts), len(text)]
    parts = [piece for a, b in pairwise(places) for piece in reader.feed(text[a:b])]
    pieces: list[list[str]] = []
    for kind, part in [*parts, *reader.finish()]:
        if pieces and pieces[-1][0] == kind:
            pieces[-1][1] += part
        else:
            pieces.append([kind, part])
    return {"shown": pieces, "calls": [tuple(c) for c in reader.calls], "answer": reader.answer}


EXAMPLES: dict[str, tuple[list[list[str]], list[tuple[str, str]], str | None]] = {
    "Plain answer.": ([["answer", "Plain answer."]], [], "Plain answer."),
    "Thought: I look.\nAction: s_0\nAction Input: {}\nObservation: made up\nFinal Answer: no": (
        [["thought", "I look."]],
        [("s_0", "{}")],
        None,
    ),
    "Thought: I know.\nFinal Answer: It is A.\nAction: s\nAction Input: {}": (
        [["thought", "I know."], ["answer", "It is A.\nAction: s\nAction Input: {}"]],
        [],
        "It is A.\nAction: s\nAction Input: {}",
    ),
    "THOUGHT: x\nfinal answer:\n\n- a\n- b\n\n": ([["thought", "x"], ["answer", "- a\n- b"]], [], "- a\n- b"),
    "思考：要查。\n行动：s\n行动输入：{}\n观察：x": ([["thought", "要查。"]], [("s", "{}")], None),
    "思考：好。\n最终答案：是万象。": ([["thought", "好。"], ["answer", "是万象。"]], [], "是万象。"),
    "**Thought:** a\n\n**Final Answer:** **Yes**": ([["thought", "a"], ["answer", "**Yes**"]], [], "**Yes**"),
    "**Final Answer: 42**": ([["answer", "42"]], [], "42"),
    "### Final Answer\n42": ([["answer", "42"]], [], "42"),
    "1. Thought: x\n2. Final Answer: y": ([["thought", "x"], ["answer", "y"]], [], "y"),
    "Thought 1: a\nAction 1: s\nAction Input 1: {}": ([["thought", "a"]], [("s", "{}")], None),
    "Sure!\nThought: x. Final Answer: 42": ([["thought", "Sure!\nx."], ["answer", "42"]], [], "42"),
    "The final answer: 42.": ([["answer", "The final answer: 42."]], [], "The final answer: 42."),
    "Thought: a\nAction: none\nFinal Answer: b": ([["thought", "a"], ["answer", "b"]], [], "b"),
    "Action: Final Answer: 42": ([["answer", "42"]], [], "42"),
    'Action: Final Answer\nAction Input: {"answer": "42"}': ([["answer", "42"]], [], "42"),
    "Thought: a\nObservation: made up\nThought: b\nFinal Answer: c": (
        [["thought", "a\nb"], ["answer", "c"]],
        [],
        "c",
    ),
    "Thought: only this": ([["thought", "only this"]], [], None),
    "Action Input: {}\nThought: lost": ([["thought", "lost"]], [], None),
    " \n": ([], [], None),
}


@each_row("text", EXAMPLES)
def test_thoughts_calls_and_answers_are_parsed(text: str) -> None:
    pieces, calls, answer = EXAMPLES[text]
    assert read(text) == {"shown": pieces, "calls": calls, "answer": answer}


@each_row("text", EXAMPLES)
def test_the_result_does_not_depend_on_where_the_text_is_cut(text: str) -> None:
    for is_last in (False, True):
        whole = read(text, is_last=is_last)
        assert [read(text, [cut], is_last=is_last) for cut in range(len(text))] == [whole] * len(text)
        assert read(text, range(len(text)), is_last=is_last) == whole


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join), st.booleans(), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_the_pieces_of_random_text(
    text: str, is_last: bool, chance: random.Random
) -> None:
    whole = read(text, is_last=is_last)
    assert read(text, range(len(text)), is_last=is_last) == whole
    assert read(text, chance.sample(range(len(text)), min(3, len(text))), is_last=is_last) == whole


def test_the_final_answer_is_streamed() -> None:
    reader = ReactReader()
    pieces = ["Thought: I", "\nFinal An", "swer: It", " is", " A", "."]
    assert [[tuple(piece) for piece in reader.feed(piece)] for piece in pieces] == [
        [("thought", "I")],
        [],
        [("answer", "It")],
        [("answer", " is")],
        [("answer", " A")],
        [("answer", ".")],
    ]


@each_row(
    ("text", "pieces"),
    [
        ("It is A.", [["answer", "It is A."]]),
        ("It is A.\nFinal Answer: B", [["answer", "It is A.\nFinal Answer: B"]]),
        (" \nFinal Answer: B", [["answer", "B"]]),
        ("Thought: it may be A", [["thought", "it may be A"], ["answer", "it may be A"]]),
        ("Thought: a\nAction: s\nAction Input: {}", [["thought", "a"], ["answer", "a"]]),
        ("Action: s", []),
    ],
)
def test_in_the_last_round_any_text_is_an_answer(text: str, pieces: list[list[str]]) -> None:
    assert read(text, is_last=True)["shown"] == pieces


def test_in_the_last_round_text_is_not_held_back() -> None:
    assert [piece.text for piece in ReactReader(is_last=True).feed("It is")] == ["It is"]


HOSTILE = [
    *(".", "\n", "Thought:", "Action: none\n", "Final An", "#Action\n", ".Action      "),
    *("Action: a\nAction Input: {\n", "Action: a\nAction Input: {}\n", "Action: a Action Input: "),
]


@each_row("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))

    def seconds(length: int) -> float:
        start = time.process_time()
        read(text[:length], range(0, length, 1000))
        return time.process_time() - start

    short = min(seconds(30_000) for _ in range(2))
    assert seconds(300_000) < 0.3 + 40 * short


@each_row("begin", ["Action: ", "Action: a\nAction Input: ", "Final Answer:", "**Final Answer:"])
@each_row("rest", ["{", '"', " ", "[", "*"])
def test_very_long_sections_are_parsed(begin: str, rest: str) -> None:
    start = time.process_time()
    read(begin + rest * 1_000_000)
    assert time.process_time() - start < 20
