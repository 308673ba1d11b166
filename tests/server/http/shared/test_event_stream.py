import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.http.shared.event_stream import EventStream
from ragflow_lg.server.streaming.sse import HEARTBEAT
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, start_app

PATH = "/agents/chat/completions"
IDS = {"X-RAGFlow-Event-Ids": "true"}


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
    async with asyncio.timeout(60):
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


async def test_a_cancelled_response_stays_cancelled() -> None:
    client, frames = Client(), FrameSource(b"a", asyncio.Event())
    sending = asyncio.create_task(play(frames, client))
    while not client.bodies:
        await asyncio.sleep(0)
    sending.cancel()
    await asyncio.wait([sending])
    assert (frames.is_closed, sending.cancelled()) == (True, True)


async def test_reading_stops_at_a_full_socket_and_no_comments_are_sent() -> None:
    frame = b"a" * 1000
    client, frames = Client(), FrameSource(*[frame] * 1000)
    client.stops_at = 3
    playing = asyncio.create_task(play(frames, client, 0.02))
    await asyncio.sleep(0.06)
    assert len(client.sent) == 3
    count = frames.count
    assert count == 3
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


def read_frames_with_ids(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Read native frames that have ids."""
    frames: list[tuple[str, dict[str, Any]]] = []
    for block in text.removesuffix("data:[DONE]\n\n").strip().split("\n\n"):
        id_, data = block.split("\n")
        frames.append((id_.removeprefix("id:"), json.loads(data.removeprefix("data:"))))
    return frames


@asynccontextmanager
async def open_stream(server: AppServer, agent_id: str, **headers: str) -> AsyncGenerator[httpx.Response]:
    body = {"agent_id": agent_id, "query": "hi", "stream": True}
    async with server.client.stream("POST", PATH, json=body, headers=headers) as answer:
        yield answer


async def status_of(server: AppServer, run_id: str) -> str:
    async with asyncio.timeout(60):
        while (row := await RunRepository(server.app_state.database, "tenant").get(run_id)) is None or not row.end_ms:
            await asyncio.sleep(0.005)
        return row.status


async def test_frames_have_ids_on_request_and_an_id_resumes_the_stream(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Hell", "o"])]) as server:
        body = {"agent_id": await server.agent(MODEL), "query": "hi", "stream": True}
        frames = read_frames_with_ids((await server.client.post(PATH, json=body, headers=IDS)).text)
        run_id = frames[0][1]["message_id"]
        assert [id_ for id_, _ in frames] == [f"{run_id}:{number}" for number in range(1, len(frames) + 1)]
        for place in ({"Last-Event-ID": frames[4][0]}, {"Last-Event-ID": f"{run_id}:5"}):
            again = (await server.client.post(PATH, json=body, headers=place)).text
            assert read_frames_with_ids(again) == frames[5:]
        named = await server.client.post(f"{PATH}?run_id={run_id}&from=6", json=body)
        assert read_frames_with_ids(named.text) == frames[5:]
        last = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[-1][0]})
        assert last.text == "data:[DONE]\n\n"
        whole = await server.client.post(PATH, json={**body, "stream": False}, headers={"Last-Event-ID": frames[4][0]})
        assert whole.json()["data"]["data"]["content"] == "Hello"
        assert len(server.model.requests) == 1


async def test_a_resumed_stream_has_the_whole_trace(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        session = await server.session(agent_id)
        body = {"agent_id": agent_id, "query": "hi", "stream": True, "session_id": session, "return_trace": True}
        frames = read_frames_with_ids((await server.client.post(PATH, json=body, headers=IDS)).text)
        again = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[1][0]})
        assert read_frames_with_ids(again.text) == frames[2:]


async def test_invalid_positions_and_those_of_other_runs_are_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id, other_agent = await server.agent(ECHO), await server.agent(ECHO, "Other")
        frames = await server.stream(agent_id)
        run_id = frames[0]["message_id"]
        other = await KeyRepository(server.app_state.database).create("other", 1)
        theirs = {"Authorization": f"Bearer {other}"}
        created = await server.client.post("/agents", json={"title": "Mine", "dsl": ECHO}, headers=theirs)
        body = {"stream": True, "query": "hi"}
        cases: list[tuple[str, dict[str, str], str, int, str]] = [
            (agent_id, {}, "7", 101, "RUN:NUMBER"),
            (agent_id, {}, f"{run_id}:99", 101, "has had events"),
            (agent_id, {}, f"{run_id}:x", 101, "number of an event"),
            (agent_id, {}, "0:1", 102, "no events for run"),
            (other_agent, {}, f"{run_id}:1", 102, "Session not found!"),
            (created.json()["data"]["id"], theirs, f"{run_id}:1", 102, "There is no run"),
        ]
        for agent, key, place, code, message in cases:
            headers = {**key, "Last-Event-ID": place}
            answer = await server.client.post(PATH, json={**body, "agent_id": agent}, headers=headers)
            assert message in answer.json()["message"], (place, answer.text)
            assert answer.json()["code"] == code


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("continue", "succeeded"), ("", "succeeded")])
async def test_the_request_selects_the_disconnect_policy(tmp_path: Path, policy: str, status: str) -> None:
    hangs = Reply(chunks=["Let me"], hangs=True)
    reply = hangs if policy == "cancel" else Reply(chunks=["Let me", " see"], pause_s=0.05)
    async with start_app(tmp_path, [reply]) as server:
        agent_id = await server.agent(MODEL)
        async with open_stream(server, agent_id, **({"X-RAGFlow-On-Disconnect": policy} if policy else {})) as answer:
            line = await anext(line async for line in answer.aiter_lines() if "Let me" in line)
            run_id = json.loads(line[5:])["message_id"]
        assert await status_of(server, run_id) == status
        listed = (await server.client.get(f"/agents/{agent_id}/sessions")).json()["data"]
        assert listed[0]["message"][-1]["content"] == ("Let me" if status == "cancelled" else "Let me see")


async def test_the_default_disconnect_policy_applies_to_unstreamed_answers(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Let me"], hangs=True)], on_disconnect="grace:0.05") as server:
        agent_id = await server.agent(MODEL)
        asking = asyncio.create_task(server.ask(agent_id))
        while not server.model.is_hanging:
            await asyncio.sleep(0.005)
        (run_id,) = server.app_state.run_manager._tasks  # pyright: ignore[reportPrivateUsage]  # runs are not listed publicly
        asking.cancel()
        assert await status_of(server, run_id) == "cancelled"


async def test_an_invalid_policy_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        headers = {"X-RAGFlow-On-Disconnect": "perhaps"}
        body = {"agent_id": await server.agent(ECHO), "query": "x"}
        refusal = (await server.client.post(PATH, json=body, headers=headers)).json()
        assert (refusal["code"], "grace:SECONDS" in refusal["message"]) == (101, True)


async def test_a_quiet_stream_has_heartbeats_except_for_the_oldest_clients(tmp_path: Path) -> None:
    async with start_app(
        tmp_path, [Reply(chunks=["a"], hangs=True)] * 2, heartbeat_s=0.02, on_disconnect="cancel"
    ) as server:
        agent_id = await server.agent(MODEL)
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        for path, expected in ((PATH, True), (f"/agents/{agent_id}/completions", False)):
            seen = b""
            async with server.client.stream("POST", path, json=body) as answer:
                try:
                    async with asyncio.timeout(0.3):
                        async for data in answer.aiter_raw():
                            seen += data
                            if b": ping" in seen:
                                break
                except TimeoutError:
                    pass
            assert (b": ping\n\n" in seen) is expected
