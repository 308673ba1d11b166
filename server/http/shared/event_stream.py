"""Responses that stream server-sent events: with heartbeats, backpressure and prompt cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from fastapi import Depends, Header, Query
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.base.tasks import RETRY_S, end_task
from ragflow_lg.server.http.shared.request_parsing import parse_flag
from ragflow_lg.server.streaming.run_task import DisconnectPolicy, parse_policy
from ragflow_lg.server.streaming.sse import HEARTBEAT, SSE_HEADERS, parse_event_position

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send


logger = logging.getLogger(__name__)

CONNECTION = "ragflow_lg.connection"
"""The key of a scope for its `Connection`, if the server has one."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""How many bytes of long frames and answers a tenant may hold for clients that do not read."""
STALLED_S = 2.0
PART_BYTES = 64 * 1024
"""A longer frame is sent in parts of this size: others need not wait while megabytes are copied."""

_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SSE_HEADERS.items()]

T = TypeVar("T")


class Connection(Protocol):
    """The connection of a request."""

    def abort(self) -> None:
        """End the connection at once, without what has not been sent."""
        ...


class Sending(Protocol):
    """A response whose body is being sent."""

    def end(self) -> None:
        """End the response as if the client had disconnected."""
        ...


class UnsentBytes:
    """The long frames and answers of each tenant that have not been sent.

    If it is too much, those whose clients have read nothing for longest end as if their clients had disconnected.
    """

    def __init__(self, most: int = MAX_UNSENT_BYTES, stalled_s: float = STALLED_S) -> None:
        """Initialize. ``most`` is the limit for a tenant; no response ends that was read within ``stalled_s``."""
        self._most = most
        self._stalled_s = stalled_s
        self._held: dict[str, dict[Sending, tuple[int, float]]] = {}
        """The bytes of each response, and when its client last read some; longest ago first."""
        self._watched: set[str] = set()
        """The tenants whose slowest responses may end soon."""

    def hold(self, tenant: str, response: Sending, size: int) -> None:
        """Note that a response keeps so many bytes until all are sent; 0 if none."""
        held = self._held.setdefault(tenant, {})
        held.pop(response, None)
        if size:
            held[response] = size, asyncio.get_running_loop().time()
            if tenant not in self._watched and self._size(held) > self._most:
                self._watch_later(tenant, self._stalled_s)
        elif not held:
            del self._held[tenant]

    def _watch_later(self, tenant: str, pause_s: float) -> None:
        self._watched.add(tenant)
        asyncio.get_running_loop().call_later(pause_s, self._end_slowest, tenant)

    def _end_slowest(self, tenant: str) -> None:
        self._watched.discard(tenant)
        held, now = self._held.get(tenant, {}), asyncio.get_running_loop().time()
        while len(held) > 1 and self._size(held) > self._most:
            slowest, (_, read) = next(iter(held.items()))
            if now - read < self._stalled_s:
                self._watch_later(tenant, read + self._stalled_s - now)
                return
            del held[slowest]
            slowest.end()
            logger.warning("a response has ended: its client reads nothing, and its tenant's others need the memory")

    @staticmethod
    def _size(held: Mapping[Sending, tuple[int, float]]) -> int:
        return sum(size for size, _ in held.values())


UNSENT = UnsentBytes()


async def send_long(message: Message, response: Sending, send: Send) -> None:
    """Send a body that may be long in parts. It counts for the tenant of the request until all are sent."""
    body, tenant = message["body"], current_notes().tenant
    try:
        for start in range(0, len(body), PART_BYTES):
            UNSENT.hold(tenant, response, len(body))
            has_more = start + PART_BYTES < len(body) or message.get("more_body", False)
            await send({**message, "body": body[start : start + PART_BYTES], "more_body": has_more})
    finally:
        UNSENT.hold(tenant, response, 0)


class EventStream(Response):
    """A response that sends the frames of an event stream as they arrive."""

    def __init__(self, frames: AsyncGenerator[bytes], heartbeat_s: float) -> None:
        """Create the response.

        Args:
            frames: The frames, one or more at a time; closed as soon as the response ends.
            heartbeat_s: Seconds of silence after which a comment is sent; 0 for never.
        """
        self.status_code, self.raw_headers, self.background = 200, [*_RAW_HEADERS], None
        self._frames = frames
        self._heartbeat_s = heartbeat_s
        self._socket = asyncio.Lock()
        self._sent = self._sent_before = 0
        self._is_inside_frame = self._has_ended_body = self._has_left = False
        self._sending: asyncio.Task[Any] | None = None
        """The task that sends the frames, until all are sent."""
        self._timer: asyncio.TimerHandle | None = None
        """The next look whether a comment is due or, once the client has left, whether the frames have ended."""
        self._beating: asyncio.Task[None] | None = None
        self._connection: Connection | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, and all frames, or stop when the client disconnects."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        task = self._sending = asyncio.current_task()
        if self._heartbeat_s:
            self._send = send
            self._beat_later()
        self._connection, tenant = scope.get(CONNECTION), current_notes().tenant
        watching = asyncio.create_task(wait_for_disconnect(receive))
        watching.add_done_callback(self._leave)
        try:
            async for frames in self._frames:
                await self._send_frames(frames, tenant, send)
                frames = b""  # not kept while the next ones are awaited
            async with self._socket:
                self._has_ended_body = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not self._has_left:
                raise
            while task is not None and task.uncancel():
                pass
        finally:
            self._sending = None
            UNSENT.hold(tenant, self, 0)
            if self._timer is not None:
                self._timer.cancel()
            for helper in (watching, self._beating):
                if helper is not None:
                    await end_task(helper)
            await self._frames.aclose()

    async def _send_frames(self, frames: bytes, tenant: str, send: Send) -> None:
        for start in range(0, len(frames), PART_BYTES):
            part = frames
            if len(frames) > PART_BYTES:
                part = frames[start : start + PART_BYTES]
                UNSENT.hold(tenant, self, len(frames))
            async with self._socket:
                self._sent += 1
                await send({"type": "http.response.body", "body": part, "more_body": True})
                self._is_inside_frame = start + PART_BYTES < len(frames)
        if len(frames) > PART_BYTES:
            UNSENT.hold(tenant, self, 0)

    def end(self) -> None:
        """End the response as if the client had disconnected."""
        if self._connection is not None:
            self._connection.abort()
        self._leave()

    def _leave(self, *_: object) -> None:
        """Stop sending. Cancels repeatedly, because redis-py can swallow a cancellation."""
        if self._sending is None:
            return
        self._has_left = True
        self._sending.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._leave)

    def _beat_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat_s, self._beat)
        self._sent_before = self._sent

    def _beat(self) -> None:
        """Send a comment if nothing has been sent for a while, and the client has read what was."""
        if self._sent_before == self._sent and not self._socket.locked():
            self._beating = asyncio.create_task(self._send_heartbeat(self._send))
        self._beat_later()

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


class StreamOptions(Struct, frozen=True):
    """What a request says about its stream."""

    position: StreamPosition = StreamPosition()
    policy: DisconnectPolicy | None = None
    """What happens when its client disconnects; None for the server's settings."""


def read_options(
    last_event_id: Annotated[
        str | None, Header(description="Last event received, `RUN:NUMBER`: the stream resumes after it.")
    ] = None,
    run_id: Annotated[str, Query(description="Run to resume, together with `from`.")] = "",
    from_: Annotated[str | None, Query(alias="from", description="Number of the first event to send, from 1.")] = None,
    event_ids: Annotated[
        str, Header(alias="X-RAGFlow-Event-Ids", description="`true`: add ids to the frames of a stream.")
    ] = "",
    on_disconnect: Annotated[
        str | None,
        Header(
            alias="X-RAGFlow-On-Disconnect",
            description="What happens to the run when its client disconnects: `cancel`, `continue` or `grace:SECONDS`. "
            "Default: the server's settings.",
        ),
    ] = None,
) -> StreamOptions:
    """Read what a request says about its stream.

    Raises:
        StreamPositionError: if it does not name a position in a run.
        RequestError: if it has no valid policy for the end of the connection.
    """
    run, after = parse_event_position(last_event_id, from_, run_id)
    position = StreamPosition(bool(run) or parse_flag(event_ids), run, after)
    return StreamOptions(position, read_policy(on_disconnect) if on_disconnect is not None else None)


Options = Annotated[StreamOptions, Depends(read_options)]


def read_policy(text: Any) -> DisconnectPolicy:
    """Read what happens when a client disconnects.

    Raises:
        RequestError: if the value is not a policy.
    """
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
