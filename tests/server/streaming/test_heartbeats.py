from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from ragflow_lg.errors import ConflictError
from server.streaming.heartbeats import with_heartbeats
from server.streaming.sse import HEARTBEAT


async def test_silence_is_filled_and_nothing_else_changed() -> None:
    go_on = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes]:
        yield b"1"
        await go_on.wait()
        yield b"2"

    seen: list[bytes] = []
    async for frame in with_heartbeats(frames(), 0.005):
        seen.append(frame)
        if seen.count(HEARTBEAT) == 2:
            go_on.set()
    assert [frame for frame in seen if frame != HEARTBEAT] == [b"1", b"2"]
    assert seen[:3] == [b"1", HEARTBEAT, HEARTBEAT]


async def test_an_error_passes_and_leaving_closes_what_is_read() -> None:
    closed: list[bool] = []

    async def frames(error: Exception | None) -> AsyncGenerator[bytes]:
        try:
            yield b"1"
            if error is not None:
                raise error
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    with pytest.raises(ConflictError, match="busy"):
        [frame async for frame in with_heartbeats(frames(ConflictError("busy")), 1)]
    async with aclosing(with_heartbeats(frames(None), 0.001)) as given:
        assert await anext(given) == b"1"
        assert await anext(given) == HEARTBEAT
    assert closed == [True, True]
