from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from server.http.event_stream import EventStream
from server.streaming.sse import HEARTBEAT


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
    assert client.bodies == [b"a", b"b", b""]
    assert [message.get("more_body") for message in client.sent] == [None, True, True, False]
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


async def test_no_more_is_read_than_is_taken_and_a_full_socket_gets_no_comments() -> None:
    client, frames = Client(), Frames(*[b"a"] * 1000)
    playing = asyncio.create_task(play(frames, client, 0.005))
    client.stops_at = 10
    await asyncio.sleep(0.03)
    assert len(client.sent) == 10
    assert frames.given == 10
    client.is_reading.set()
    await playing
    assert client.bodies == [b"a"] * 1000 + [b""]


async def test_a_failure_is_not_swallowed() -> None:
    frames = Frames(b"a", ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        await play(frames, Client())
    assert frames.is_closed
