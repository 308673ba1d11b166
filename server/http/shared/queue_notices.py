"""Streams of turns that wait for a place. Their clients learn how many runs are before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RagflowLgError, StreamError
from ragflow_lg.base.request_notes import RequestNotes, current_notes
from ragflow_lg.base.tasks import end_task
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import EventStream
from ragflow_lg.server.streaming.sse import queue_comment

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.server.runs.turns import Turns

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

    The notes of the request name the run as soon as it may wait.

    Args:
        request: The request.
        begin: Begins the turn, waits for its first event, and returns its frames.
        refuse: Builds the last frames of a turn that is refused after it has waited.
        notice: Builds the frame with the run, the session and the position.

    Raises:
        RagflowLgError: If the turn is refused without having waited.
    """
    turns, notes = get_turns(request), current_notes()
    heartbeat_s = get_app_state(request).settings.server.heartbeat_s
    task = asyncio.create_task(begin)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
            if not task.done() and await _find_position(turns, notes.run):
                return EventStream(_wait_and_write(turns, task, notes, refuse, notice), heartbeat_s)
        return EventStream(task.result(), heartbeat_s)
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
