from typing import Any

from ragflow_lg.runs.wire.wire_events import AnswerText, Message, MessageEnd, MessageReset, UserInputs, message_frames
from tests.harness.rows import each_row

RESET = MessageReset("A<think>hm</think>B")
OPEN, CLOSE = Message("", start_to_think=True), Message("", end_to_think=True)
EVENTS = (
    *(Message("one"), MessageEnd(), Message("A"), OPEN, Message("lost"), RESET),
    *(OPEN, Message("so"), CLOSE, Message("C"), MessageEnd()),
)
UNOPENED = (*message_frames("Hm</think>"), Message("Yes"))


@each_row(
    ("events", "thinking", "text"),
    [
        (EVENTS, "omitted", "oneABC"),
        (EVENTS, "tagged", "oneA<think>hm</think>B<think>so</think>C"),
        (EVENTS, "text", "oneAhmBsoC"),
        (UNOPENED, "omitted", "Yes"),
        (UNOPENED, "tagged", "<think>Hm</think>Yes"),
        (UNOPENED, "text", "Yes"),
    ],
)
def test_a_reset_replaces_the_text_of_the_current_message(events: Any, thinking: Any, text: str) -> None:
    answer = AnswerText(thinking)
    for event in events:
        answer.feed(event)
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
