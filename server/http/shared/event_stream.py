"""Responses that stream server-sent events: with heartbeats, backpressure and prompt cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.server.http.shared.described_routes import describe_header, describe_query
from ragflow_lg.server.http.shared.request_parsing import parse_flag
from ragflow_lg.server.streaming.run_task import end_task, parse_policy
from ragflow_lg.server.streaming.sse import HEARTBEAT, SSE_HEADERS, parse_event_position

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ragflow_lg.server.streaming.run_task import DisconnectPolicy


LATER = "ragflow_lg.streams"
"""The key of a scope whose list gets the responses whose bodies are still to be sent."""
PART_BYTES = 64 * 1024
"""A longer frame is sent in parts of this size: others need not wait while megabytes are copied."""
IDS_HEADER = "x-ragflow-event-ids"
DISCONNECT_HEADER = "x-ragflow-on-disconnect"

T = TypeVar("T")

DISCONNECT = describe_header(
    "X-RAGFlow-On-Disconnect",
    "What happens to the run when its client disconnects: `cancel`, `continue` or `grace:SECONDS`. Default: the "
    "server's settings.",
    pattern="^(cancel|continue|grace:[0-9]+)$",
    examples=["cancel", "grace:30"],
)
EVENT_IDS = describe_header(
    "X-RAGFlow-Event-Ids", "Whether to add ids to the frames of a stream.", enum=["true", "false"]
)
RESUME = (
    describe_header("Last-Event-ID", "Last event received, `RUN:NUMBER`: the stream resumes after it."),
    describe_query("run_id", "Run to resume, together with `from`."),
    describe_query("from", "Number of the first event to send, from 1.", pattern="^[0-9]{1,15}$"),
)


class EventStream(StreamingResponse):
    """A response that sends the frames of an event stream as they arrive.

    In a scope with `LATER`, the caller of the application sends the body, once that has returned: routes and
    middleware then need no memory while the stream is open.
    """

    def __init__(self, frames: AsyncGenerator[bytes], heartbeat_s: float) -> None:
        """Create the response.

        Args:
            frames: The frames, one or more at a time; closed as soon as the response ends.
            heartbeat_s: Seconds of silence after which a comment is sent; 0 for never.
        """
        super().__init__(frames, headers=SSE_HEADERS)
        self._frames = frames
        self._heartbeat_s = heartbeat_s
        self._socket = asyncio.Lock()
        self._sent = 0
        self._has_ended_body = self._is_inside_frame = self._is_waiting = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, and all frames, or stop when the client disconnects."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if LATER in scope:
            scope[LATER].append(self)
        else:
            await self.send_body(receive, send)

    async def send_body(self, receive: Receive, send: Send) -> None:
        """Send all frames, or stop when the client disconnects."""
        task = asyncio.create_task(self._send_frames(send))
        try:
            while not task.done():
                sent_before = self._sent
                with suppress(TimeoutError):
                    await self._wait_for_disconnect(receive, task)
                    break
                if sent_before == self._sent and not self._socket.locked():
                    await self._send_heartbeat(send)
            if task.done():
                task.result()
        finally:
            await end_task(task)
            await self._frames.aclose()

    async def _wait_for_disconnect(self, receive: Receive, task: asyncio.Task[None]) -> None:
        """Wait until the client disconnects.

        Raises:
            TimeoutError: after a heartbeat interval, or if the task is done before.
        """
        async with asyncio.timeout(self._heartbeat_s or None) as interval:

            def end_interval(_: Any) -> None:
                if self._is_waiting:
                    interval.reschedule(0)

            task.add_done_callback(end_interval)
            self._is_waiting = True
            try:
                await wait_for_disconnect(receive)
            finally:
                self._is_waiting = False
                task.remove_done_callback(end_interval)

    async def _send_frames(self, send: Send) -> None:
        async for frames in self._frames:
            for start in range(0, len(frames), PART_BYTES):
                part = frames if len(frames) <= PART_BYTES else frames[start : start + PART_BYTES]
                async with self._socket:
                    self._sent += 1
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    self._is_inside_frame = start + PART_BYTES < len(frames)
            frames = part = b""  # not kept while the next ones are awaited
        async with self._socket:
            self._has_ended_body = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_heartbeat(self, send: Send) -> None:
        async with self._socket:
            if not (self._has_ended_body or self._is_inside_frame):
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects. The request must already have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamPosition(Struct, frozen=True):
    """The position at which a client resumes a stream, and whether it receives event ids."""

    has_ids: bool = False
    run_id: str = ""
    """The run to resume; ``""`` for a new run."""
    after: int = 0
    """The number of the last event that the client has received; 0 for none."""


def read_position(request: Request) -> StreamPosition:
    """Read ``Last-Event-ID``, ``?run_id=`` with ``?from=``, and `X-RAGFlow-Event-Ids`.

    Raises:
        StreamPositionError: if they do not name a position in a run.
    """
    query = request.query_params
    run_id, after = parse_event_position(
        request.headers.get("last-event-id"), query.get("from"), query.get("run_id", "")
    )
    return StreamPosition(bool(run_id) or parse_flag(request.headers.get(IDS_HEADER)), run_id, after)


def read_disconnect_policy(request: Request, field: Any = None) -> DisconnectPolicy | None:
    """Read the policy for a client that disconnects: from a body field, or else from the header.

    Raises:
        RequestError: if the value is not a policy.
    """
    text: Any = request.headers.get(DISCONNECT_HEADER) if field is None else field
    if text is None:
        return None
    try:
        return parse_policy(str(text))
    except SettingsError as error:
        raise RequestError(str(error), 101) from None


async def await_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work for a response, and cancel it if the client disconnects. The request must already have been read.

    Raises:
        ClientDisconnect: if the client has disconnected.
    """
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise ClientDisconnect
        return work_task.result()
    finally:
        await end_task(work_task)
        await end_task(disconnect_task)
