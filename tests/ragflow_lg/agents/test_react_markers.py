from ragflow_lg.agents.react_action import MARKER_ENDS, may_begin_at, next_marker
from tests.harness.rows import each_row


def kind(text: str, start: int = 0) -> str | None:
    marker = next_marker(text, start)
    return marker and marker[0]


@each_row(
    ("text", "means"),
    [
        ("Thought: a", "thought"),
        ("  > **FINAL_ANSWER** :", "answer"),
        ("ActionInput：", "input"),
        ("- Action Input 12 :", "input"),
        ("2) observation:", "observation"),
        ("动作输入：", "input"),
        ("I know. Final Answer:", "answer"),
        ("I know! Action:", "action"),
        ("**Thought**\n", "thought"),
        ("Well. Thought:", None),
        ("My Action:", None),
        ("Thought\n", None),
        ("Actions:", None),
        ("Anſwer. Final Anſwer:", None),
    ],
)
def test_markers_are_recognized(text: str, means: str | None) -> None:
    assert kind(text) == means


def test_a_marker_ends_after_its_colon_and_is_searched_within_bounds() -> None:
    text = "x\nThought: a\nAction: b"
    marker = next_marker(text, 0)
    assert marker is not None
    assert text[marker.end :].startswith(" a")
    assert kind(text, marker.end) == "action"
    assert next_marker(text, 0, 2) is None
    assert text[marker.end - 1] in MARKER_ENDS


@each_row(
    ("text", "rest"),
    [
        ("Final An", "Final An"),
        ("a\n**Act", "**Act"),
        ("a. ", " "),
        ("a\nAction Input 1 *", "Action Input 1 *"),
        ("abc", ""),
        ("Actually", ""),
        ("Thought of", ""),
        ("." * 200, "." * 80),
    ],
)
def test_an_incomplete_marker_is_held_back(text: str, rest: str) -> None:
    assert text[may_begin_at(text, 0) :] == rest
