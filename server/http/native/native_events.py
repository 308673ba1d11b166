"""Streams of server-sent events for runs. Every event has a number from which a client can resume."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RagflowLgError, RequestError
from ragflow_lg.server.http.native.problem_details import to_problem
from ragflow_lg.server.streaming.sse import event_id, native_frame, parse_event_position, retry_frame

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.requests import Request

    from ragflow_lg.server.streaming.event_codec import StreamEvent
    from ragflow_lg.server.streaming.run_manager import EventPage

RETRY_S = 1.0


EVENT_STREAM: dict[str, Any] = {
    "examples": {
        "stream": {
            "value": "retry: 1000\n\nid: 9b1f…:1\nevent: workflow_started\ndata: "
            '{"run_id":"9b1f…","session_id":"0c7f…","event":"workflow_started","data":{"inputs":{}}}\n\n'
            'event: end\ndata: {"run":{"status":"succeeded"},"error":null}\n\n'
        }
    },
}
"""Description of a stream for the OpenAPI document."""


def read_event_position(request: Request, run_id: str, from_: str | None) -> int:
    """Return the number of the last event that the client has received, or 0. ``Last-Event-ID`` overrides ``from``.

    Raises:
        RequestError: if the id belongs to another run.
        StreamPositionError: if the position is not a number.
    """
    named_run, after = parse_event_position(request.headers.get("last-event-id"), from_, run_id)
    if named_run != run_id:
        raise RequestError(
            f"Last-Event-ID belongs to another run, {named_run[:40]!r}.", 101, status=400, reason="event-unknown"
        )
    return after


async def write_event_frames(
    run_id: str,
    session_id: str,
    page: EventPage[StreamEvent] | None,
    pages: AsyncGenerator[EventPage[StreamEvent]],
    show: Callable[[], Awaitable[BaseModel]],
) -> AsyncGenerator[bytes]:
    """Write the events of a run, starting with the first ``page``, and finally the run as returned by ``show``.

    The last frame has no id, so that a client that missed only this frame receives it again.
    """
    error: dict[str, Any] | None = None
    try:
        yield retry_frame(RETRY_S) + (_write_page(run_id, session_id, page) if page else b"")
        del page
        async for page in pages:
            yield _write_page(run_id, session_id, page)
            del page
    except RagflowLgError as failure:
        error = to_problem(failure).model_dump()
    finally:
        await pages.aclose()
    try:
        run = (await show()).model_dump()
    except RagflowLgError as failure:
        run, error = None, error or to_problem(failure).model_dump()
    yield native_frame({"run": run, "error": error}, "end")


def queue_frame(run_id: str, session_id: str, position: int) -> bytes:
    """Write the place of a run that waits, from 1. It is not an event of the run, so it has no id."""
    data = {"run_id": run_id, "session_id": session_id, "event": "queued", "data": {"position": position}}
    return native_frame(data, "queued")


def refuse_frames(error: RagflowLgError) -> list[bytes]:
    """Write the end of a stream whose run was refused after it had waited."""
    return [native_frame({"run": None, "error": to_problem(error).model_dump()}, "end")]


def _write_page(run_id: str, session_id: str, page: EventPage[StreamEvent]) -> bytes:
    frames: list[bytes] = []
    for number, event in page:
        data = {"run_id": run_id, "session_id": session_id, "event": event.event, "data": event.data()}
        frames.append(native_frame(data, event.event, event_id(run_id, number)))
    return b"".join(frames)
