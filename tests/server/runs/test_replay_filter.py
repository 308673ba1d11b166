from typing import Any

import pytest

from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.wire.wire_events import Message, MessageEnd, WireNodeFinished, WireNodeStarted, WorkflowStarted


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


def filter_events(sent: list[Any], more: list[Any], outputs: dict[str, Any] | None = None) -> list[Any]:
    replay_filter = ReplayFilter(sent)
    return [*replay_filter.finish(outputs or {}), *(new for event in more for new in replay_filter.feed(event))]


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


def test_thinking_is_not_sent_again() -> None:
    thought = [Message("", start_to_think=True), Message("Hm"), Message("", end_to_think=True)]
    sent = [*FIRST_EVENTS, node_started("Message:0"), *thought, Message("Good")]
    assert filter_events(sent, [node_started(LLM, "LLM"), node_started("Message:0"), *thought, Message("Goodbye")]) == [
        Message("bye")
    ]


def test_a_finished_message_is_completed_from_the_stored_outputs() -> None:
    sent = [*FIRST_EVENTS, node_started("Message:0"), *pieces("Good")]
    outputs = {"content": "Goodbye"}
    events = filter_events(sent, [node_started("LLM:1", "LLM")], {"Message:0": outputs})
    assert events[:2] == [Message("bye"), MessageEnd()]
    assert (events[2].component_id, events[2].outputs) == ("Message:0", outputs)
    assert events[3:] == [node_started("LLM:1", "LLM")]


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
