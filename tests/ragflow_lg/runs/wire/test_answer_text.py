from typing import Literal

import pytest

from ragflow_lg.runs.wire.answer_text import AnswerText, message_frames
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd, MessageReset, UserInputs

EVENTS = (
    Message("one"),
    MessageEnd(),
    Message("A"),
    Message("", start_to_think=True),
    Message("lost"),
    MessageReset("A<think>hm</think>B"),
    Message("", start_to_think=True),
    Message("so"),
    Message("", end_to_think=True),
    Message("C"),
    MessageEnd(),
)


@pytest.mark.parametrize(
    ("thinking", "text"),
    [("omitted", "oneABC"), ("tagged", "oneA<think>hm</think>B<think>so</think>C"), ("text", "oneAhmBsoC")],
)
def test_a_reset_replaces_the_text_of_the_current_message(
    thinking: Literal["omitted", "tagged", "text"], text: str
) -> None:
    answer = AnswerText(thinking)
    for event in EVENTS:
        answer.feed(event)
    assert answer.text == text


@pytest.mark.parametrize(
    ("thinking", "text"), [("omitted", "Yes"), ("tagged", "<think>Hm</think>Yes"), ("text", "Yes")]
)
def test_thinking_that_is_not_stored_is_no_part_of_the_plain_text(
    thinking: Literal["omitted", "tagged", "text"], text: str
) -> None:
    answer = AnswerText(thinking)
    for frame in (*message_frames("Hm</think>"), Message("Yes")):
        answer.feed(frame)
    assert answer.text == text


def test_a_character_that_is_split_between_two_pieces_is_whole_in_the_text() -> None:
    answer = AnswerText()
    for piece in ("\ud83d", "\ude00!", "\ud83d"):
        answer.feed(Message(piece))
    assert answer.text == "\N{GRINNING FACE}!\ufffd"


def test_sources_of_all_messages_and_the_last_form_are_collected() -> None:
    answer = AnswerText()
    for event in (
        MessageEnd({"reference": {"chunks": {"0": {"id": "a"}}}}),
        MessageEnd({"reference": {"chunks": {"1": {"id": "b"}}, "total": 2}}),
        MessageEnd({"reference": "odd"}),
    ):
        answer.feed(event)
    assert answer.reference == {"chunks": {"0": {"id": "a"}, "1": {"id": "b"}}}
    assert (answer.form, answer.tips) == (None, "")
    answer.feed(UserInputs({}, "Fill in"))
    assert answer.tips == "Fill in"
