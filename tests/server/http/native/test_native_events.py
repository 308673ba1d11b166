from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.requests import Request

from ragflow_lg.base.errors import (
    DatabaseError,
    RagflowLgError,
    RequestError,
    StreamInterruptedError,
    StreamPositionError,
)
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.wire.wire_events import Message, WorkflowStarted
from ragflow_lg.server.http.native.run_responses import read_event_position, write_event_frames
from ragflow_lg.server.streaming.event_codec import StreamEvent
from ragflow_lg.server.streaming.run_manager import EventPage
from tests.server.http.native.native_client import frames

RECORD = AgentRecord(NodeId("Agent:0"), "Agent:0", 1, "", "thought", 1.0, {"text": "hm"})


class State(BaseModel):
    status: str = "succeeded"


async def show() -> BaseModel:
    return State()


async def fail() -> BaseModel:
    raise DatabaseError("It is down.")


async def pages(*items: StreamEvent, error: RagflowLgError | None = None) -> AsyncGenerator[EventPage[StreamEvent]]:
    for number, event in enumerate(items, 1):
        yield EventPage([(number, event)])
    if error is not None:
        raise error


async def read(stream: AsyncGenerator[bytes]) -> list[tuple[str, str, Any]]:
    return frames(b"".join([frame async for frame in stream]).decode())


async def test_every_event_has_an_id_and_the_run_comes_last() -> None:
    first = EventPage[StreamEvent]([(1, WorkflowStarted(None)), (2, RECORD)])
    received = await read(write_event_frames("r", "s", first, pages(Message("Hi")), show))
    names = [("r:1", "workflow_started"), ("r:2", "agent_record"), ("r:1", "message"), ("", "end")]
    assert [(id_, name) for id_, name, _ in received] == names
    assert received[2][2] == {"run_id": "r", "session_id": "s", "event": "message", "data": {"content": "Hi"}}
    assert received[-1][2] == {"run": {"status": "succeeded"}, "error": None}


async def test_the_last_frame_has_the_error_that_interrupted_the_stream() -> None:
    broken = pages(Message("Hi"), error=StreamInterruptedError("The server has stopped."))
    received = await read(write_event_frames("r", "s", None, broken, show))
    assert [name for _, name, _ in received] == ["message", "end"]
    assert received[-1][2]["error"]["code"] == "run-interrupted"
    down = await read(write_event_frames("r", "s", None, pages(), fail))
    assert (down[-1][2]["run"], down[-1][2]["error"]["message"]) == (None, "It is down.")


def _request(last: str | None) -> Request:
    headers = [] if last is None else [(b"last-event-id", last.encode())]
    return Request({"type": "http", "headers": headers})


def test_the_header_overrides_the_query() -> None:
    assert read_event_position(_request("r:7"), "r", "2") == 7
    assert read_event_position(_request("7"), "r", None) == 7
    assert read_event_position(_request(None), "r", "2") == 1
    assert read_event_position(_request(None), "r", None) == 0
    with pytest.raises(RequestError, match="belongs to another run"):
        read_event_position(_request("other:7"), "r", None)
    with pytest.raises(StreamPositionError):
        read_event_position(_request("r:x"), "r", None)
