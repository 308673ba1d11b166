"""Responses that stream server-sent events: with heartbeats, backpressure and prompt cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
from fastapi import Depends, Header, Query
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from ragflow_lg.base.errors import RagflowLgError, RequestError, SettingsError, StreamError
from ragflow_lg.base.request_notes import RequestNotes, current_notes
from ragflow_lg.base.tasks import end_task
from ragflow_lg.server.http.shared.auth import RequestKey, get_turns
from ragflow_lg.server.http.shared.request_bodies import parse_flag
from ragflow_lg.server.streaming.run_task import parse_policy
from ragflow_lg.server.streaming.sse import HEARTBEAT, SSE_HEADERS, parse_event_position, queue_comment

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ragflow_lg.server.runs.turns import Turns


T = TypeVar("T")

HEARTBEAT_S = 15.0
"""After this time without an event, a comment is sent so that proxies do not close the stream."""


class EventStream(StreamingResponse):
    """A response that sends the frames of an event stream as they arrive, and stops if the client disconnects."""

    def __init__(self, frames: AsyncGenerator[bytes], *, has_heartbeats: bool = True) -> None:
        """Create the response. The frames come one or more at a time; they are closed as soon as the response ends.

        After `HEARTBEAT_S` seconds of silence, a comment is sent if it ``has_heartbeats``.
        """
        self._frames = _with_heartbeats(frames, HEARTBEAT_S if has_heartbeats else None)
        super().__init__(self._frames, headers=SSE_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, and all frames, or stop when the client disconnects."""
        async with aclosing(self._frames):
            await super().__call__(scope, receive, send)


async def _with_heartbeats(frames: AsyncGenerator[bytes], silence_s: float | None) -> AsyncGenerator[bytes]:
    """Yield frames, and a comment whenever none has arrived for a while. They end outside Starlette's cancel scope."""
    async with aclosing(frames):
        while True:
            task = asyncio.ensure_future(anext(frames, None))
            try:
                while not (await asyncio.wait([task], timeout=silence_s))[0]:
                    yield HEARTBEAT
            finally:
                with anyio.CancelScope(shield=True):  # Starlette cancels again at each await
                    await end_task(task)
            frame = task.result()
            if frame is None:
                return
            yield frame


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
    policy: str | None = None
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
    _: RequestKey = None,
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


def read_policy(text: Any) -> str:
    """Read what happens when a client disconnects."""
    try:
        parse_policy(str(text))
    except SettingsError as error:
        raise RequestError(str(error), 101) from None
    return str(text)


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


LOOK_S = 1.0
"""How often the position of a run is looked up. A turn that is refused sooner than this is not streamed."""

Frames = AsyncGenerator[bytes]


async def begin_stream(
    request: Request,
    begin: Coroutine[Any, Any, Frames],
    refuse: Callable[[RagflowLgError], Iterable[bytes]],
    *,
    notice: Callable[[str, str, int], bytes] = queue_comment,
) -> EventStream:
    """Respond with the frames of a turn once it has begun, or with its position in the queue while it waits.

    The notes of the request name the run as soon as it may wait. ``begin`` begins the turn, waits for its first event,
    and returns its frames; ``refuse`` builds the last frames of a turn that is refused after it has waited, and
    ``notice`` the frame with the run, the session and the position.

    Raises:
        RagflowLgError: If the turn is refused without having waited.
    """
    turns, notes = get_turns(request), current_notes()
    task = asyncio.create_task(begin)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
            if not task.done() and await _find_position(turns, notes.run):
                return EventStream(_wait_and_write(turns, task, notes, refuse, notice))
        return EventStream(task.result())
    except BaseException:
        await end_task(task)
        raise


async def _wait_and_write(
    turns: Turns,
    task: asyncio.Task[Frames],
    notes: RequestNotes,
    refuse: Callable[[RagflowLgError], Iterable[bytes]],
    notice: Callable[[str, str, int], bytes],
) -> Frames:
    last = 0
    try:
        while not task.done():
            position = await _find_position(turns, notes.run)
            if position and position != last:
                yield notice(notes.run, notes.session, position)
                last = position
            await asyncio.wait([task], timeout=LOOK_S)
        try:
            frames = task.result()
        except RagflowLgError as error:
            for frame in refuse(error):
                yield frame
            return
        async with aclosing(frames):
            async for frame in frames:
                yield frame
    finally:
        await end_task(task)


async def _find_position(turns: Turns, run_id: str) -> int:
    with suppress(StreamError):  # the turn itself gets the error of the queue
        return await turns.queue_position(run_id)
    return 0
