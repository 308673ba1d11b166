from typing import Any

import pytest

from ragflow_lg.runs.wire.wire_events import (
    Envelope,
    Message,
    MessageEnd,
    UserInputs,
    WireEvent,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)
from ragflow_lg.server.http.ragflow.ragflow_frames import (
    AnswerCollector,
    Forwarding,
    FrameBuilder,
    build_error_frame,
)
from ragflow_lg.services.chat import Usage

ENVELOPE = Envelope("m1", 5, "s1", "s1")
DONE = WireNodeFinished({}, {"structured": {"a": 1}}, "LLM:0", "", "LLM", None, 0.5, 5.0)
REFERENCE: Any = {"chunks": {7: {"id": "c"}}, "doc_aggs": {}}  # ids of chunks are numbers before they are sent
TURN: list[WireEvent] = [
    WorkflowStarted({}),
    WireNodeStarted("LLM:0", "", "LLM", 5),
    Message("", start_to_think=True),
    Message("hm"),
    Message("", end_to_think=True),
    Message("Hello"),
    MessageEnd({"reference": REFERENCE}),
    DONE,
    WorkflowFinished({}, "Hello", 0.5, 5.0, Usage(3, 2, 1)),
]


def test_an_error_is_a_frame_as_in_ragflow() -> None:
    assert build_error_frame("no") == {"code": 500, "message": "no", "data": False}


@pytest.mark.parametrize(
    ("forwarding", "names"),
    [
        ("all", [event.event for event in TURN]),
        ("session", ["message"] * 4 + ["message_end", "node_finished", "workflow_finished"]),
        ("messages", ["message"] * 4 + ["message_end"]),
    ],
)
def test_each_kind_of_client_receives_its_events(forwarding: Forwarding, names: list[str]) -> None:
    frames = FrameBuilder(ENVELOPE, forwarding, has_trace=False)
    sent = [frame for event in TURN if (frame := frames.build(event))]
    assert [frame["event"] for frame in sent] == names
    assert all(list(f) == ["event", "message_id", "created_at", "task_id", "data", "session_id"] for f in sent)


def test_every_frame_for_the_oldest_clients_has_a_content() -> None:
    frames = FrameBuilder(ENVELOPE, "messages", has_trace=True)
    sent: list[Any] = [frames.build(event) for event in (DONE, DONE, UserInputs({}, "Which?"))]
    assert [frame["data"]["content"] for frame in sent] == ["", "", "Which?"]
    assert [len(frame["data"]["trace"]) for frame in sent[:2]] == [1, 2]
    assert "trace" not in sent[1]["data"]["trace"][0]["trace"][0]


@pytest.mark.parametrize(
    ("forwarding", "event", "content"),
    [("all", "workflow_finished", "<think>hm</think>Hello"), ("session", "message_end", "hmHello")],
)
def test_the_collected_answer_is_complete(forwarding: Forwarding, event: str, content: str) -> None:
    collector = AnswerCollector(ENVELOPE, forwarding, has_trace=True)
    for each in TURN:
        collector.feed(each)
    answer = collector.build_answer()
    assert (answer["event"], answer["session_id"], answer["data"]["content"]) == (event, "s1", content)
    assert answer["data"]["reference"] == {"chunks": {7: {"id": "c"}}, "doc_aggs": {}}
    assert answer["data"]["structured"] == {"LLM:0": {"a": 1}}
    assert answer["data"]["usage"]["total_tokens"] == 5
    assert answer["data"]["trace"][0]["component_id"] == "LLM:0"


def test_a_form_is_the_answer_without_messages() -> None:
    collector = AnswerCollector(ENVELOPE, "messages", has_trace=False)
    assert collector.build_answer() == {"session_id": "s1"}
    collector.feed(UserInputs({"size": {}}, "Which?"))
    assert collector.build_answer()["data"] == {
        "inputs": {"size": {}},
        "tips": "Which?",
        "content": "Which?",
        "reference": {},
    }
