import time
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
    name_visit,
)
from ragflow_lg.server.runs.replay_filter import ReplayFilter
from tests.fakes.canvas import canvas, node, plan_of
from tests.harness.rows import each_row


def node_started(node: str, kind: str = "Message") -> WireNodeStarted:
    return WireNodeStarted(node, node, kind, 1)


def node_finished(node: str, kind: str = "Message") -> WireNodeFinished:
    return WireNodeFinished({}, {}, node, node, kind, None, 0.0, 0.0)


VISIT = name_visit("", "Message:0")
THINK, ANSWER = Message("", start_to_think=True, visit=VISIT), Message("", end_to_think=True, visit=VISIT)


def pieces(*texts: str) -> list[Any]:
    return [Message(text, visit=VISIT) for text in texts]


def end() -> MessageEnd:
    return MessageEnd(visit=VISIT)


LLM = "LLM:0"
PLAN = plan_of(
    canvas({LLM: node("LLM", {}, ["Message:0"]), "Message:0": node("Message", {"content": [f"{{{LLM}@content}}"]})})
)
FIRST_EVENTS: list[Any] = [
    WorkflowStarted({}),
    node_started("begin", "Begin"),
    node_finished("begin", "Begin"),
    node_started(LLM, "LLM"),
]


def filter_events(sent: list[Any], more: list[Any]) -> list[Any]:
    replay_filter = ReplayFilter(sent, PLAN)
    return [new for event in more for new in replay_filter.feed(event)]


@pytest.mark.parametrize(("again", "expected"), [("Goodbye", []), ("Good", [*pieces("Good"), end()])])
def test_a_message_that_had_ended_is_sent_again_if_it_turns_out_differently(again: str, expected: list[Any]) -> None:
    """The process died before the answer was stored, and the model answers again."""
    ending = [node_finished(LLM, "LLM"), node_finished("Message:0")]
    sent = [*FIRST_EVENTS, node_started("Message:0"), *pieces("Good", "bye"), end(), *ending]
    replay_filter = ReplayFilter(sent, PLAN)
    more = [node_started(LLM, "LLM"), node_started("Message:0"), *pieces("Go", again[2:]), end(), *ending]
    assert ([new for event in more for new in replay_filter.feed(event)], replay_filter.answer) == (expected, again)


def test_a_message_that_was_withdrawn_is_repeated_from_what_remains() -> None:
    sent = [node_started("Message:0"), *pieces("A", "par"), MessageReset("A", VISIT), *pieces("B")]
    assert filter_events(sent, [node_started("Message:0"), *pieces("A", "B", "C")]) == pieces("C")
    # The model fails again in the continuation: what it has sent since is withdrawn.
    again = [node_started("Message:0"), *pieces("A"), MessageReset("A", VISIT), *pieces("D")]
    assert filter_events(sent, again) == [MessageReset("A", VISIT), *pieces("D")]


def test_a_long_text_takes_time_in_proportion_to_its_length() -> None:
    long = pieces(*["word " * 80] * 20_000)
    began = time.process_time()
    assert filter_events([*FIRST_EVENTS, *long], [*long, *pieces("x"), end()]) == [*pieces("x"), end()]
    assert time.process_time() - began < 3


def say(number: int, text: str, *, has_ended: bool = True) -> list[Any]:
    id_ = f"Message:{number}"
    visit = name_visit("", id_)
    ending: list[Any] = [MessageEnd(visit=visit), node_finished(id_)]
    return [node_started(id_), Message(text, visit=visit), *(ending if has_ended else [])]


def test_the_answer_keeps_another_message_that_contains_the_replaced_text() -> None:
    replay_filter = ReplayFilter([*say(0, "b"), *say(1, "abab")], PLAN)
    for event in say(0, "c"):
        replay_filter.feed(event)
    assert replay_filter.answer == "ababc"


def test_a_message_that_had_ended_is_compared_without_the_text_of_the_open_one() -> None:
    replay_filter = ReplayFilter([*say(1, "x"), *say(0, "Good", has_ended=False)], PLAN)
    assert [new for event in [*say(0, "Good"), *say(1, "x")] for new in replay_filter.feed(event)] == say(0, "Good")[2:]
    assert replay_filter.answer == "xGood"


def test_a_second_takeover_knows_which_text_was_replaced() -> None:
    sent = say(0, "Good", has_ended=False)
    first = ReplayFilter(sent, PLAN)
    sent += [new for event in say(0, "Bad") for new in first.feed(event)]
    assert first.answer == ReplayFilter(sent, PLAN).answer == "Bad"


def test_the_answer_joins_halves_of_a_character() -> None:
    replay_filter = ReplayFilter(say(0, "\ud83d", has_ended=False), PLAN)
    for event in [node_started("Message:0"), *pieces("\ud83d", "\ude00"), end()]:
        replay_filter.feed(event)
    assert replay_filter.answer == "\U0001f600"


@each_row("thought", ["Hm", "Hmm, well", "Well", ""])
@each_row("text", ["Good", "Goodbye", "Go", "Bad day", ""])
@each_row("count", range(1, 9))
@each_row("before", ["", "First: "])
def test_followers_get_the_text_of_another_answer(thought: str, text: str, before: str, count: int) -> None:
    def answer(thought: str, text: str) -> list[Any]:
        thinking = [THINK, *pieces(*thought), ANSWER] if thought else []
        return [node_started("Message:0"), *pieces(*[before][: len(before)]), *thinking, *pieces(*text), end()]

    sent = answer("Hm", "Good")[:count]
    replay_filter = ReplayFilter(sent, PLAN)
    more: list[Any] = [new for event in answer(thought, text) for new in replay_filter.feed(event)]
    assert replay_filter.answer == before + text
    shown, last = AnswerText(), ""
    for event in [*sent, *more]:
        last += shown.feed(event)
        if isinstance(event, MessageEnd) and event is not more[-1]:
            last = ""
    assert last == before + text


@pytest.mark.parametrize("running", ["Message:0", "Switch:0"])
def test_a_node_in_a_cycle_is_repeated_if_only_followers_know_its_end(running: str) -> None:
    item = {"cpn_id": "sys.query", "operator": "contains", "value": "x"}
    branch = {"conditions": [{"logical_operator": "and", "items": [item], "to": [LLM]}], "end_cpn_ids": ["Message:1"]}
    components = {
        LLM: node("LLM", {}, ["Message:0"]),
        "Message:0": node("Message", {"content": [f"{{{LLM}@content}}"]}, ["Switch:0"]),
        "Switch:0": node("Switch", branch, [LLM, "Message:1"]),
        "Message:1": node("Message", {"content": ["x"]}),
    }
    plan = plan_of(canvas(components))
    shown = [node_started("Message:0"), *pieces("A"), end(), node_finished(LLM, "LLM"), node_finished("Message:0")]
    switched = [node_started("Switch:0", "Switch"), node_finished("Switch:0", "Switch")]
    sent = [*FIRST_EVENTS, *shown, *switched, node_started(LLM, "LLM"), *shown]
    replay_filter = ReplayFilter(sent if running == "Message:0" else [*sent, *switched], plan)
    assert replay_filter.missing_events(Progress(plan, running={("", NodeId(running))})) == []
    again = [*shown[:3], shown[4], *switched] if running == "Message:0" else switched
    more = [*again, node_started(LLM, "LLM"), *shown]
    expected = more[4:] if running == "Message:0" else more[2:]
    assert ([new for event in more for new in replay_filter.feed(event)], replay_filter.answer) == (expected, "AAA")


def place(events: list[Any], number: int) -> list[Any]:
    """Return the events of another round."""
    name = name_visit(str(number), "Message:0")
    return [replace(e, visit=name) if hasattr(e, "visit") else replace(e, place=str(number)) for e in events]


def test_another_round_of_a_node_is_sent() -> None:
    events = [
        node_started(LLM, "LLM"),
        node_started("Message:0"),
        *pieces("a"),
        end(),
        node_finished(LLM, "LLM"),
        node_finished("Message:0"),
    ]
    sent, more = place(events, 0), place(events, 1)
    assert filter_events(sent, [*sent, *more]) == more


def test_the_text_of_another_round_waits_for_the_open_message() -> None:
    """Clients cannot tell Messages apart: the continuation must not show another one first."""
    events = [node_started("Message:0"), *pieces("a", "b"), end(), node_finished("Message:0")]
    one, other = place(events, 0), place(events, 1)
    assert filter_events(one[:2], [*other, *one]) == [other[0], *one[2:], *other[1:]]


@pytest.mark.parametrize("last", [WorkflowFinished({}, {}, 0.0, 0.0), UserInputs({}, "")])
def test_the_last_event_is_not_sent_again(last: Any) -> None:
    """The process was killed after the last event, but before it could mark the end of the run."""
    assert (filter_events([*FIRST_EVENTS, last], [last]), filter_events(FIRST_EVENTS, [last])) == ([], [last])
