from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ragflow_lg.server.http.shared.event_stream import MAX_GATHERED_BYTES, EventStream
from ragflow_lg.server.streaming.sse import HEARTBEAT


class Client:
    """What an ASGI server stands for: takes what is sent, and may leave."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.is_reading = asyncio.Event()
        self.is_reading.set()
        self.stops_at = 0

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        await self.is_reading.wait()
        self.sent.append(message)
        if len(self.sent) == self.stops_at:
            self.is_reading.clear()

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]


class Frames:
    def __init__(self, *frames: bytes | asyncio.Event | Exception) -> None:
        self.frames = frames
        self.given = 0
        self.is_closed = False

    async def give(self) -> AsyncGenerator[bytes]:
        try:
            for frame in self.frames:
                if isinstance(frame, asyncio.Event):
                    await frame.wait()
                elif isinstance(frame, Exception):
                    raise frame
                else:
                    self.given += 1
                    yield frame
        finally:
            self.is_closed = True


async def play(frames: Frames, client: Client, heartbeat_s: float = 0.0) -> None:
    async with asyncio.timeout(5):
        await EventStream(frames.give(), heartbeat_s)({"type": "http"}, client.receive, client.send)


async def test_frames_are_sent_and_then_the_end() -> None:
    client, frames = Client(), Frames(b"a", b"b")
    await play(frames, client)
    assert b"".join(client.bodies) == b"ab"
    assert [message.get("more_body") for message in client.sent] == [None, *([True] * (len(client.sent) - 2)), False]
    assert (b"x-accel-buffering", b"no") in client.sent[0]["headers"]


async def test_a_comment_is_sent_whenever_nothing_else_is() -> None:
    go = asyncio.Event()
    client, frames = Client(), Frames(b"a", go, b"b")
    playing = asyncio.create_task(play(frames, client, 0.005))
    while client.bodies.count(HEARTBEAT) < 3:
        await asyncio.sleep(0.001)
    go.set()
    await playing
    assert client.bodies[0] == b"a"
    assert client.bodies[-2:] == [b"b", b""]


async def test_a_client_that_leaves_ends_the_reading_at_once() -> None:
    client, frames = Client(), Frames(b"a", asyncio.Event())
    playing = asyncio.create_task(play(frames, client))
    while not client.bodies:
        await asyncio.sleep(0)
    assert not frames.is_closed
    client.left.set()
    await playing
    assert frames.is_closed


async def test_a_frame_goes_at_once_and_a_crowd_of_them_together() -> None:
    gates = [asyncio.Event() for _ in range(2)]
    crowd = [b"%d," % number for number in range(1000)]
    client, frames = Client(), Frames(b"first", gates[0], *crowd, gates[1], b"last")
    playing = asyncio.create_task(play(frames, client))
    while not client.bodies:
        await asyncio.sleep(0)
    assert client.bodies == [b"first"]
    gates[0].set()
    while frames.given < 1001 or b"999," not in client.bodies[-1]:
        await asyncio.sleep(0.001)
    assert len(client.bodies) < 10
    gates[1].set()
    await playing
    assert b"".join(client.bodies) == b"first" + b"".join(crowd) + b"last"


async def test_no_more_is_read_than_is_taken_and_a_full_socket_gets_no_comments() -> None:
    frame = b"a" * 1000
    client, frames = Client(), Frames(*[frame] * 1000)
    client.stops_at = 3
    playing = asyncio.create_task(play(frames, client, 0.02))
    await asyncio.sleep(0.06)
    assert len(client.sent) == 3
    given = frames.given
    assert given <= 6 * MAX_GATHERED_BYTES / len(frame)
    await asyncio.sleep(0.06)
    assert frames.given == given
    client.is_reading.set()
    await playing
    assert b"".join(client.bodies) == frame * 1000
    assert HEARTBEAT not in client.bodies


async def test_a_client_that_leaves_while_its_socket_is_full_ends_the_reading() -> None:
    client, frames = Client(), Frames(*[b"a" * 1000] * 1000)
    client.stops_at = 2
    playing = asyncio.create_task(play(frames, client))
    await asyncio.sleep(0.01)
    client.left.set()
    await playing
    assert frames.is_closed


async def test_a_failure_is_not_swallowed() -> None:
    frames = Frames(b"a", ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        await play(frames, Client())
    assert frames.is_closed
