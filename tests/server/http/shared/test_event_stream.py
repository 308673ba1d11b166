import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from ragflow_lg.server.http.shared.event_stream import MAX_BUFFER_BYTES, EventStream
from ragflow_lg.server.streaming.sse import HEARTBEAT


class Client:
    """The receive and send functions of an ASGI server whose client may disconnect or stop reading."""

    def __init__(self) -> None:
        self.has_left = asyncio.Event()
        self.sent: list[Message] = []
        self.is_reading = asyncio.Event()
        self.is_reading.set()
        self.stops_at = 0

    async def receive(self) -> Message:
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.is_reading.wait()
        self.sent.append(message)
        if len(self.sent) == self.stops_at:
            self.is_reading.clear()

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]


class FrameSource:
    def __init__(self, *frames: bytes | asyncio.Event | Exception) -> None:
        self.frames = frames
        self.count = 0
        self.is_closed = False

    async def stream(self) -> AsyncGenerator[bytes]:
        try:
            for frame in self.frames:
                if isinstance(frame, asyncio.Event):
                    await frame.wait()
                elif isinstance(frame, Exception):
                    raise frame
                else:
                    self.count += 1
                    yield frame
        finally:
            self.is_closed = True


async def play(frames: FrameSource, client: Client, heartbeat_s: float = 0.0) -> None:
    async with asyncio.timeout(5):
        await EventStream(frames.stream(), heartbeat_s)({"type": "http"}, client.receive, client.send)


async def test_frames_are_sent_and_the_response_ends() -> None:
    client, frames = Client(), FrameSource(b"a", b"b")
    await play(frames, client)
    assert b"".join(client.bodies) == b"ab"
    assert [message.get("more_body") for message in client.sent] == [None, *([True] * (len(client.sent) - 2)), False]
    assert (b"x-accel-buffering", b"no") in client.sent[0]["headers"]


async def test_a_comment_is_sent_while_no_frames_arrive() -> None:
    go = asyncio.Event()
    client, frames = Client(), FrameSource(b"a", go, b"b")
    playing = asyncio.create_task(play(frames, client, 0.005))
    while client.bodies.count(HEARTBEAT) < 3:
        await asyncio.sleep(0.001)
    go.set()
    await playing
    assert client.bodies[0] == b"a"
    assert client.bodies[-2:] == [b"b", b""]


async def test_a_disconnect_stops_reading_at_once() -> None:
    client, frames = Client(), FrameSource(b"a", asyncio.Event())
    playing = asyncio.create_task(play(frames, client))
    while not client.bodies:
        await asyncio.sleep(0)
    assert not frames.is_closed
    client.has_left.set()
    await playing
    assert frames.is_closed


async def test_a_single_frame_is_sent_at_once_and_a_burst_is_batched() -> None:
    gates = [asyncio.Event() for _ in range(2)]
    crowd = [b"%d," % number for number in range(1000)]
    client, frames = Client(), FrameSource(b"first", gates[0], *crowd, gates[1], b"last")
    playing = asyncio.create_task(play(frames, client))
    while not client.bodies:
        await asyncio.sleep(0)
    assert client.bodies == [b"first"]
    gates[0].set()
    while frames.count < 1001 or b"999," not in client.bodies[-1]:
        await asyncio.sleep(0.001)
    assert len(client.bodies) < 10
    gates[1].set()
    await playing
    assert b"".join(client.bodies) == b"first" + b"".join(crowd) + b"last"


async def test_reading_stops_at_a_full_socket_and_no_comments_are_sent() -> None:
    frame = b"a" * 1000
    client, frames = Client(), FrameSource(*[frame] * 1000)
    client.stops_at = 3
    playing = asyncio.create_task(play(frames, client, 0.02))
    await asyncio.sleep(0.06)
    assert len(client.sent) == 3
    count = frames.count
    assert count <= 6 * MAX_BUFFER_BYTES / len(frame)
    await asyncio.sleep(0.06)
    assert frames.count == count
    client.is_reading.set()
    await playing
    assert b"".join(client.bodies) == frame * 1000
    assert HEARTBEAT not in client.bodies


async def test_a_disconnect_with_a_full_socket_stops_reading() -> None:
    client, frames = Client(), FrameSource(*[b"a" * 1000] * 1000)
    client.stops_at = 2
    playing = asyncio.create_task(play(frames, client))
    await asyncio.sleep(0.01)
    client.has_left.set()
    await playing
    assert frames.is_closed


async def test_an_error_of_the_frames_is_raised() -> None:
    frames = FrameSource(b"a", ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        await play(frames, Client())
    assert frames.is_closed
