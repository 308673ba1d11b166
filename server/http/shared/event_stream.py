"""Responses that stream server-sent events: with heartbeats, backpressure and prompt cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.server.http.shared.described_routes import describe_header, describe_query
from ragflow_lg.server.http.shared.request_parsing import parse_flag
from ragflow_lg.server.streaming import parse_policy
from ragflow_lg.server.streaming.run_task import end_task
from ragflow_lg.server.streaming.sse import HEARTBEAT, SSE_HEADERS, parse_event_position

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ragflow_lg.server.streaming import DisconnectPolicy


FLUSH_INTERVAL_S = 0.005
"""Frames that arrive within this time after the last write are sent together, because socket writes are expensive."""
MAX_BUFFER_BYTES = 16 * 1024
"""Number of buffered bytes at which reading stops until the socket has accepted them."""
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
    """A response that sends frames as they arrive, several in one write if they arrive quickly."""

    def __init__(self, frames: AsyncGenerator[bytes], heartbeat_s: float) -> None:
        """Create the response.

        Args:
            frames: The frames; closed as soon as the response ends.
            heartbeat_s: Seconds of silence after which a comment is sent; 0 for never.
        """
        super().__init__(frames, headers=SSE_HEADERS)
        self._frames = frames
        self._heartbeat_s = heartbeat_s
        self._buffer = bytearray()
        self._has_data = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._socket = asyncio.Lock()
        self._sent = 0
        self._has_ended_body = False
        self._is_inside_frame = self._has_sent_part = False
        """Whether what has been buffered, or sent, ends inside a frame."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all frames, or stop when the client disconnects."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        read_task = asyncio.create_task(self._read_frames())
        read_task.add_done_callback(lambda _: self._has_data.set())
        send_task = asyncio.create_task(self._send_frames(send, read_task))
        disconnect_task = asyncio.create_task(wait_for_disconnect(receive))
        try:
            while not await self._wait(send_task, disconnect_task):
                await self._send_heartbeat(send)
            if send_task.done():
                send_task.result()
        finally:
            for task in (send_task, disconnect_task, read_task):
                await end_task(task)
            await self._frames.aclose()

    async def _wait(self, *tasks: asyncio.Task[None]) -> bool:
        """Wait until a task is done (True), or until nothing has been sent for one heartbeat interval (False)."""
        while True:
            sent_before = self._sent
            timeout_s = self._heartbeat_s or None
            done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return True
            if sent_before == self._sent and not self._socket.locked():
                return False

    async def _read_frames(self) -> None:
        async for frame in self._frames:
            for start in range(0, len(frame), PART_BYTES):
                self._buffer += frame[start : start + PART_BYTES]
                self._is_inside_frame = start + PART_BYTES < len(frame)
                self._has_data.set()
                if len(self._buffer) >= MAX_BUFFER_BYTES:
                    self._has_room.clear()
                    await self._has_room.wait()

    async def _send_frames(self, send: Send, read_task: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        sent_at = 0.0
        while not read_task.done() or self._buffer:
            await self._has_data.wait()
            early_s = sent_at + FLUSH_INTERVAL_S - loop.time()
            if early_s > 0 and len(self._buffer) < MAX_BUFFER_BYTES and not read_task.done():
                await asyncio.sleep(early_s)
            self._has_data.clear()
            body = bytes(self._buffer)
            self._buffer.clear()
            self._has_sent_part = self._is_inside_frame
            self._has_room.set()
            if body:
                async with self._socket:
                    self._sent += 1
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            sent_at = loop.time()
        read_task.result()
        async with self._socket:
            self._has_ended_body = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_heartbeat(self, send: Send) -> None:
        async with self._socket:
            if not (self._has_ended_body or self._has_sent_part):
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
