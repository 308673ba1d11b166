"""Runs as streams of server-sent events, each with its number, to be left and taken up again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.server.http.document.event_schema import build_event_schema
from ragflow_lg.server.http.native.problem_details import to_problem
from ragflow_lg.server.streaming.positions import event_id, parse_event_position
from ragflow_lg.server.streaming.sse import native_frame, retry_frame

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.requests import Request

    from ragflow_lg.server.streaming import StreamEvent

__all__ = ["EVENT_STREAM", "read_event_position", "write_event_frames"]

RETRY_S = 1.0

Events = AsyncGenerator[tuple[int, "StreamEvent"]]

_REFS = "#/components/schemas"
_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "An event of the run.",
    "properties": {
        "run_id": {"type": "string"},
        "session_id": {"type": "string"},
        "event": {"type": "string", "description": "As RAGFlow calls it, or `agent_record`."},
        "data": {"type": "object"},
    },
    "required": ["run_id", "session_id", "event", "data"],
}
_END: dict[str, Any] = {
    "type": "object",
    "description": "`end`, the last event: the run as it stands, and what the stream broke off with.",
    "properties": {
        "run": {"anyOf": [{"$ref": f"{_REFS}/RunAnswer"}, {"type": "null"}]},
        "error": {"anyOf": [{"$ref": f"{_REFS}/Problem"}, {"type": "null"}]},
    },
    "required": ["run", "error"],
}
EVENT_STREAM: dict[str, Any] = {
    "schema": build_event_schema({"anyOf": [_EVENT, _END]}),
    "examples": {
        "stream": {
            "value": "retry: 1000\n\nid: 9b1f…:1\nevent: workflow_started\ndata: "
            '{"run_id":"9b1f…","session_id":"0c7f…","event":"workflow_started","data":{"inputs":{}}}\n\n'
            'event: end\ndata: {"run":{"status":"succeeded"},"error":null}\n\n'
        }
    },
}
"""How the document of the API describes a stream."""


def read_event_position(request: Request, run_id: str, given: str | None) -> int:
    """Give the number of the last event that a client has, 0 for none: by ``Last-Event-ID``, or else by ``from``.

    Raises:
        RequestError: if it names another run.
        StreamPositionError: if it is no number.
    """
    named, after = parse_event_position(request.headers.get("last-event-id"), given, run_id)
    if named != run_id:
        raise RequestError(f"Last-Event-ID belongs to the run {named[:40]!r}.", 101, status=400, reason="event-unknown")
    return after


async def write_event_frames(
    run_id: str,
    session_id: str,
    events: Events,
    show: Callable[[], Awaitable[BaseModel]],
    *,
    first: tuple[int, StreamEvent] | None = None,
    has_records: bool = False,
) -> AsyncGenerator[bytes]:
    """Write the events of a run, ``first`` before all others, and at last the run as ``show`` gives it.

    The last frame has no number, so that a client that has lost only that gets it again.
    """
    yield retry_frame(RETRY_S)
    error: dict[str, Any] | None = None
    try:
        if first is not None and (frame := _frame(run_id, session_id, first, has_records)):
            yield frame
        async for pair in events:
            if frame := _frame(run_id, session_id, pair, has_records):
                yield frame
    except RagflowLgError as failure:
        error = to_problem(failure).model_dump()
    finally:
        await events.aclose()
    try:
        run = (await show()).model_dump()
    except RagflowLgError as failure:
        run, error = None, error or to_problem(failure).model_dump()
    yield native_frame({"run": run, "error": error}, "end")


def _frame(run_id: str, session_id: str, pair: tuple[int, StreamEvent], has_records: bool) -> bytes:
    number, event = pair
    if isinstance(event, AgentRecord) and not has_records:
        return b""
    shown = {"run_id": run_id, "session_id": session_id, "event": event.event, "data": event.data()}
    return native_frame(shown, event.event, event_id(run_id, number))
