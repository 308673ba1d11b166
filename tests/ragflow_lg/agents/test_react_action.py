import pytest

from ragflow_lg.agents.react_action import MAX_ACTIONS, WrittenCall, answer_in, is_no_action, read_actions
from tests.harness.rows import each_row


@each_row(
    ("text", "calls"),
    [
        ('s\nAction Input: {"a": {"b": [1]}}\nObservation: x', [("s", '{"a": {"b": [1]}}')]),
        ('s\nAction Input: {\n "q": "}\\"{",\n "n": 1\n}\n\nSome words', [("s", '{\n "q": "}\\"{",\n "n": 1\n}')]),
        ('s\nAction Input: {"q": "a\nObservation: in it"}', [("s", '{"q": "a\nObservation: in it"}')]),
        ('`s`\nAction Input:\n```json\n{"q": 1}\n```\nObservation:', [("s", '{"q": 1}')]),
        ("s\nAction Input: {}", [("s", "{}")]),
        ("s\nAction Input:", [("s", "")]),
        ("s", [("s", "")]),
        ('"web search".\nAction Input: Laos today\n\nObservation: x', [("web search", "Laos today")]),
        ('s\nAction Input: "Laos \\"x\\""', [("s", 'Laos "x"')]),
        ("s Action Input: Laos", [("s", "Laos")]),
        ("s\nAction Input: ```\nselect 1\n```", [("s", "select 1")]),
        ("s[Laos]", [("s", "Laos")]),
        ('s("Laos")', [("s", "Laos")]),
        ('s({"q": (1)})', [("s", '{"q": (1)}')]),
        ('{"name": "s", "arguments": {"q": "é"}}', [("s", '{"q": "é"}')]),
        ('\n```json\n{"action": "s", "action_input": "Laos"}\n```', [("s", "Laos")]),
        ('[{"name": "s", "arguments": {}}, {"tool": "t"}]', [("s", "{}"), ("t", "{}")]),
        ("s\nAction Input: {}\nAction: t\nAction Input: x\nThought: z\nAction: u", [("s", "{}"), ("t", "x")]),
        ("s\nAction Input: {}\nAction: none", [("s", "{}")]),
        ('s\nAction Input: {"q": 1\nAction: t', [("s", '{"q": 1\nAction: t')]),
        ("行动", [("行动", "")]),
        ("s\n行动输入：老挝", [("s", "老挝")]),
    ],
)
def test_actions_are_parsed_in_every_form(text: str, calls: list[tuple[str, str]]) -> None:
    assert [tuple(call) for call in read_actions(text)] == calls


def test_the_number_of_actions_is_limited() -> None:
    assert len(read_actions("s\nAction Input: {}\nAction: " * 1000)) == MAX_ACTIONS


@pytest.mark.parametrize(("line", "is_none"), [("None.", True), (" `n/a` ", True), ("无", True), ("nonesuch", False)])
def test_the_absence_of_an_action_is_recognized(line: str, is_none: bool) -> None:
    assert is_no_action(line) is is_none


@each_row(
    ("name", "text", "answer"),
    [
        ("Final Answer", "42", "42"),
        ("finish", '{"answer": "42"}', "42"),
        ("Finish", '{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ("最终答案", '"x"', "x"),
        ("finisher", "42", None),
    ],
)
def test_an_answer_may_be_written_as_an_action(name: str, text: str, answer: str | None) -> None:
    assert WrittenCall(name, text).answer == answer
    assert answer_in("Final Answer: 42") == " 42"
    assert answer_in("say Final Answer: 42") is None
