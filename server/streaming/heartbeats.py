"""Signs of life between the frames of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from server.streaming.ending import end_task
from server.streaming.sse import HEARTBEAT

__all__ = ["with_heartbeats"]


async def with_heartbeats(frames: AsyncIterator[bytes], every_s: float) -> AsyncGenerator[bytes]:
    """Give the frames, and a comment whenever none has come for ``every_s``.

    Close it (`contextlib.aclosing`), and what it reads is closed too, at once.
    """
    upcoming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            upcoming = asyncio.create_task(_next(frames))
            while not (await asyncio.wait([upcoming], timeout=every_s))[0]:
                yield HEARTBEAT
            if (frame := upcoming.result()) is None:
                return
            yield frame
    finally:
        if upcoming is not None:
            await end_task(upcoming)
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()


async def _next(frames: AsyncIterator[bytes]) -> bytes | None:
    return await anext(frames, None)
