from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.wire.wire_events import Message, MessageEnd, WireNodeFinished, WireNodeStarted, WorkflowStarted


def started(node: str, kind: str = "Message") -> WireNodeStarted:
    return WireNodeStarted(node, node, kind, 1)


def finished(node: str, kind: str = "Message") -> WireNodeFinished:
    return WireNodeFinished({}, {}, node, node, kind, None, 0.0, 0.0)


def pieces(*texts: str) -> list[Any]:
    return [Message(text) for text in texts]


LLM = "LLM:0"
BEGUN: list[Any] = [WorkflowStarted({}), started("begin", "Begin"), finished("begin", "Begin"), started(LLM, "LLM")]


def stitched(said: list[Any], more: list[Any], outputs: dict[str, Any] | None = None) -> list[Any]:
    stitch = ReplayFilter(said)
    return [*stitch.finish(outputs or {}), *(told for event in more for told in stitch.feed(event))]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["Good"], ["Goodbye", " you"], ["bye", " you"]),
        (["Good"], ["Go", "od", "bye"], ["bye"]),
        (["Good", "bye"], ["Goodbye"], []),
        ([], ["Goodbye"], ["Goodbye"]),
    ],
)
def test_what_has_been_told_of_a_message_is_not_told_again(
    before: list[str], after: list[str], told: list[str]
) -> None:
    said = [*BEGUN, started("Message:0"), *pieces(*before)]
    end: list[Any] = [MessageEnd(), finished(LLM, "LLM"), finished("Message:0")]
    more = [started(LLM, "LLM"), started("Message:0"), *pieces(*after), *end]
    assert stitched(said, more) == [*pieces(*told), *end]


def test_a_message_that_turns_out_otherwise_is_ended_and_said_whole() -> None:
    said = [*BEGUN, started("Message:0"), *pieces("Goodbye")]
    more = [started(LLM, "LLM"), started("Message:0"), *pieces("Good", "ness", " me"), MessageEnd()]
    assert stitched(said, more) == [MessageEnd(), *pieces("Goodness", " me"), MessageEnd()]


def test_thoughts_are_not_thought_again() -> None:
    thought = [Message("", start_to_think=True), Message("Hm"), Message("", end_to_think=True)]
    said = [*BEGUN, started("Message:0"), *thought, Message("Good")]
    assert stitched(said, [started(LLM, "LLM"), started("Message:0"), *thought, Message("Goodbye")]) == [Message("bye")]


def test_what_was_done_but_not_told_is_told_from_the_stored_outputs() -> None:
    said = [*BEGUN, started("Message:0"), *pieces("Good")]
    found = {"content": "Goodbye"}
    told = stitched(said, [started("LLM:1", "LLM")], {"Message:0": found})
    assert told[:2] == [Message("bye"), MessageEnd()]
    assert (told[2].component_id, told[2].outputs) == ("Message:0", found)
    assert told[3:] == [started("LLM:1", "LLM")]


def test_another_round_of_a_node_is_told() -> None:
    said = [*BEGUN, finished(LLM, "LLM"), started("Message:0"), *pieces("a"), MessageEnd(), finished("Message:0")]
    more = [started(LLM, "LLM"), started("Message:0"), *pieces("a"), MessageEnd()]
    assert stitched(said, more) == more
