"""Runs are read by workers of other versions, so what is stored may be older or newer."""

import json
from typing import Any

import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.streaming.new_run import NewRun, decode_run, encode_run

FIRST_FORMAT: dict[str, Any] = {
    "envelope": {"message_id": "r", "created_at": 1763700000, "task_id": "s", "session_id": "s"},
    "tenant": "default",
    "agent_id": "a",
    "intent": "resume",
    "request": {"inputs": {"size": {"value": 42}}},
    "question": "size: 42",
    "start_ms": 1763700000000,
    "parent_run": "p",
    "has_tenant_record": True,
}
"""A run as the first version with a queue has written it. Later versions must read it."""


def test_runs_of_the_first_format_are_read() -> None:
    run = decode_run(json.dumps(FIRST_FORMAT).encode())
    envelope = Envelope("r", 1763700000, "s", "s")
    assert run == NewRun(
        envelope, "default", "a", "resume", {"inputs": {"size": {"value": 42}}}, "size: 42", 1763700000000, "p", True
    )
    assert (run.policy, run.page_key, json.loads(encode_run(run))) == ("continue", "", FIRST_FORMAT)


@pytest.mark.parametrize(
    "change",
    [
        {"intent": "dream"},
        {"envelope": "r"},
        {"tenant": None},
        {"start_ms": "x"},
        {"request": [1]},
        {"request": {"inputs": [1]}},
    ],
)
def test_a_run_that_cannot_be_read_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(StreamError, match="cannot be read"):
        decode_run(json.dumps(FIRST_FORMAT | change).encode())
    with pytest.raises(StreamError, match="cannot be read"):
        decode_run(b"[" * 10_000)
