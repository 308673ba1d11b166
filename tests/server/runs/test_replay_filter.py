from typing import Any

import pytest

from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowStarted,
)


def node_started(node: str, kind: str = "Message") -> WireNodeStarted:
    return WireNodeStarted(node, node, kind, 1)


def node_finished(node: str, kind: str = "Message") -> WireNodeFinished:
    return WireNodeFinished({}, {}, node, node, kind, None, 0.0, 0.0)


def pieces(*texts: str) -> list[Any]:
    return [Message(text) for text in texts]


LLM = "LLM:0"
FIRST_EVENTS: list[Any] = [
    WorkflowStarted({}),
    node_started("begin", "Begin"),
    node_finished("begin", "Begin"),
    node_started(LLM, "LLM"),
]


def filter_events(sent: list[Any], more: list[Any]) -> list[Any]:
    replay_filter = ReplayFilter(sent)
    return [new for event in more for new in replay_filter.feed(event)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["Good"], ["Goodbye", " you"], ["bye", " you"]),
        (["Good"], ["Go", "od", "bye"], ["bye"]),
        (["Good", "bye"], ["Goodbye"], []),
        ([], ["Goodbye"], ["Goodbye"]),
    ],
)
def test_the_sent_part_of_a_message_is_not_sent_again(before: list[str], after: list[str], expected: list[str]) -> None:
    sent = [*FIRST_EVENTS, node_started("Message:0"), *pieces(*before)]
    end: list[Any] = [MessageEnd(), node_finished(LLM, "LLM"), node_finished("Message:0")]
    more = [node_started(LLM, "LLM"), node_started("Message:0"), *pieces(*after), *end]
    assert filter_events(sent, more) == [*pieces(*expected), *end]


def test_a_message_that_turns_out_differently_is_ended_and_sent_in_full() -> None:
    sent = [*FIRST_EVENTS, node_started("Message:0"), *pieces("Goodbye")]
    more = [node_started(LLM, "LLM"), node_started("Message:0"), *pieces("Good", "ness", " me"), MessageEnd()]
    assert filter_events(sent, more) == [MessageEnd(), *pieces("Goodness", " me"), MessageEnd()]


def test_a_message_that_was_withdrawn_is_repeated_from_what_remains() -> None:
    sent = [node_started("m"), *pieces("A", "par"), MessageReset("A"), *pieces("B")]
    assert filter_events(sent, [node_started("m"), *pieces("A", "B", "C")]) == pieces("C")
    # The model fails again in the continuation: what it has sent since is withdrawn.
    again = [node_started("m"), *pieces("A"), MessageReset("A"), *pieces("D")]
    assert filter_events(sent, again) == [MessageReset("A"), *pieces("D")]


def test_thinking_is_not_sent_again() -> None:
    thought = [Message("", start_to_think=True), Message("Hm"), Message("", end_to_think=True)]
    sent = [*FIRST_EVENTS, node_started("Message:0"), *thought, Message("Good")]
    assert filter_events(sent, [node_started(LLM, "LLM"), node_started("Message:0"), *thought, Message("Goodbye")]) == [
        Message("bye")
    ]


def test_other_thoughts_are_not_sent_either() -> None:
    think, answer = Message("", start_to_think=True), Message("", end_to_think=True)
    sent = [*FIRST_EVENTS, node_started("Message:0"), think, Message("Hm"), answer, Message("Good")]
    more = [node_started("Message:0"), think, Message("Well"), answer, Message("Goodbye")]
    assert filter_events(sent, more) == [Message("bye")]
    assert filter_events(sent[:-2], more) == [answer, Message("Goodbye")]


def test_the_answer_is_the_text_that_followers_have() -> None:
    sent = [*FIRST_EVENTS, node_started("Message:0"), *pieces("Good")]
    replay_filter = ReplayFilter(sent)
    for event in (node_started("Message:0"), Message("Goodbye"), MessageEnd(), Message("!")):
        replay_filter.feed(event)
    assert replay_filter.answer == "Goodbye!"
    other = ReplayFilter(sent)
    for event in pieces("Bad"):
        other.feed(event)
    assert other.answer == "Bad"


def test_another_round_of_a_node_is_sent() -> None:
    sent = [
        *FIRST_EVENTS,
        node_finished(LLM, "LLM"),
        node_started("Message:0"),
        *pieces("a"),
        MessageEnd(),
        node_finished("Message:0"),
    ]
    more = [node_started(LLM, "LLM"), node_started("Message:0"), *pieces("a"), MessageEnd()]
    assert filter_events(sent, more) == more
