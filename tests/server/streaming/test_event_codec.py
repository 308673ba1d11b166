import json
from typing import Any

import msgspec
import pytest

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CheckpointError,
    ConflictError,
    NodeTimeoutError,
    RagflowLgError,
    RunCancelled,
    RunError,
    ServiceError,
    StreamError,
    StreamGapError,
    UndeclaredTargetError,
)
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.wire.wire_events import (
    Message,
    MessageEnd,
    UserInputs,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)
from ragflow_lg.server.streaming.event_codec import (
    RunEnd,
    StoredError,
    decode_entry,
    encode_entry,
    revive_error,
    store_error,
)
from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics
from ragflow_lg.services.chat import Usage
from tests.harness.rows import each_row

METRICS = AgentMetrics(1, 2.5, 1, 0.5, 3, 0, {"echo": ToolMetrics(2, 1, 0.1)}, Usage(1, 2, 3, 0.4), 0, Usage())
EVENTS: list[Any] = [
    WorkflowStarted(None),
    WorkflowStarted({"sys.query": "ü", "deep": [{"a": [None, True]}]}),
    WireNodeStarted("begin", "Begin", "Begin", 1),
    WireNodeFinished({"a": 10**30}, {"content": "x" * 1000}, "LLM:0", "n", "LLM", "it failed", 0.5, 1.5),
    Message("half of an emoji: \ud83d"),
    Message("", start_to_think=True),
    MessageEnd({"reference": {"chunks": {"17": {"content": "c"}}}, "status": 201}),
    UserInputs({"name": {"type": "line", "value": None}}, "Your name?"),
    WorkflowFinished(None, ["\udc00", 1.5], 0.1, 2.0, Usage(5, 6, 7, 0.25)),
    AgentRecord(NodeId("Agent:0"), "Agent:0-->echo", 2, "1/2", "agent_finished", 3.5, {"b": 1}, True, METRICS),
    RunEnd("failed", StoredError("conflict", "busy", {"node": "x"})),
    RunEnd("succeeded"),
]


@each_row("event", EVENTS)
def test_a_decoded_event_equals_the_encoded_one(event: Any) -> None:
    data = encode_entry(event)
    assert b"\n" not in data
    json.loads(data)
    back = decode_entry(data)
    assert back == event
    assert type(back) is type(event)
    if not isinstance(back, RunEnd):
        assert (back.event, back.data()) == (event.event, event.data())


DAMAGED = [
    b"",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'["message"]',
    b'["message",{"content":5}]',
    b'["message",{"content":"\\ud83d","start_to_think":5}]',
    b'["node_finished",{}]',
    b'["unheard_of",{}]',
    b'[["message"],{}]',
    b'["workflow_started",{"inputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
]


@each_row("data", DAMAGED)
def test_damaged_data_is_reported(data: bytes) -> None:
    with pytest.raises(StreamError, match="A stored event cannot be read") as raised:
        decode_entry(data)
    assert len(str(raised.value)) < 300


ERRORS = [
    AnswerError({"size": "It is required."}, node="UserFillUp:0", advice="Answer again."),
    CanvasChangedError("The canvas has changed.", node="LLM:0"),
    CheckpointError("The store is gone."),
    ConflictError("It is being run."),
    NodeTimeoutError("LLM:0", 2.5),
    RunCancelled("LLM:0"),
    RunError("KeyError: 'x'"),
    ServiceError("Too many requests.", is_retryable=True, retry_after_s=2.0),
    StreamGapError("Dropped.", first=41),
    UndeclaredTargetError("Switch:0", "Message:1"),
]


@each_row("error", ERRORS)
def test_a_revived_error_equals_the_stored_one(error: RagflowLgError) -> None:
    error_ = revive_error(msgspec.json.decode(msgspec.json.encode(store_error(error)), type=StoredError))
    assert type(error_) is type(error)
    assert str(error_) == str(error)
    assert vars(error_) == vars(error)


def test_an_unknown_code_becomes_a_run_error_with_known_fields_only() -> None:
    error_ = revive_error(StoredError("os.system", "x", {"node": "n", "__class__": "y", "add_note": 1}))
    assert type(error_) is RunError
    assert vars(error_) == {"node": "n"}
