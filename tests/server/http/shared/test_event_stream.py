import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.http.shared import event_stream
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, frames, start_app
from tests.server.http.native.native_client import frames as native_frames
from tests.server.waiting import wait_while

PATH = "/agents/chat/completions"
IDS = {"X-RAGFlow-Event-Ids": "true"}


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
        while (
            row := await RunRepository(server.app_state.database, server.tenant).get(run_id)
        ) is None or not row.end_ms:
            await asyncio.sleep(0.005)
        return row.status


async def test_a_resumed_stream_is_whole(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"])]
    body = {"agent_id": await server.agent(MODEL), "query": "hi", "stream": True}
    frames = read_frames_with_ids((await server.client.post(PATH, json=body, headers=IDS)).text)
    run_id = frames[0][1]["message_id"]
    assert [id_ for id_, _ in frames] == [f"{run_id}:{number}" for number in range(1, len(frames) + 1)]
    for place in ({"Last-Event-ID": frames[4][0]}, {"Last-Event-ID": f"{run_id}:5"}):
        assert read_frames_with_ids((await server.client.post(PATH, json=body, headers=place)).text) == frames[5:]
    named = await server.client.post(f"{PATH}?run_id={run_id}&from=6", json=body)
    assert read_frames_with_ids(named.text) == frames[5:]
    last = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[-1][0]})
    assert last.text == "data:[DONE]\n\n"
    whole = await server.client.post(PATH, json={**body, "stream": False}, headers={"Last-Event-ID": frames[4][0]})
    assert (whole.json()["data"]["data"]["content"], len(server.model.requests)) == ("Hello", 1)
    agent_id = await server.agent(ECHO)
    session = await server.session(agent_id)
    body = {"agent_id": agent_id, "query": "hi", "stream": True, "session_id": session, "return_trace": True}
    frames = read_frames_with_ids((await server.client.post(PATH, json=body, headers=IDS)).text)
    again = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[1][0]})
    assert read_frames_with_ids(again.text) == frames[2:]


async def test_positions_and_policies_are_checked(server: AppServer) -> None:
    agent_id, other_agent = await server.agent(ECHO), await server.agent(ECHO, "Other")
    run_id = (await server.stream(agent_id))[0]["message_id"]
    other = await server.new_key("other")
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
    headers = {"X-RAGFlow-On-Disconnect": "perhaps"}
    body = {"agent_id": await server.agent(ECHO), "query": "x"}
    refusal = await server.post(PATH, body, headers=headers)
    assert (refusal["code"], "grace:SECONDS" in refusal["message"]) == (101, True)


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("continue", "succeeded"), ("", "succeeded")])
async def test_the_request_selects_the_disconnect_policy(server: AppServer, policy: str, status: str) -> None:
    hangs = Reply(chunks=["Let me"], hangs=True)
    server.model.replies += [hangs if policy == "cancel" else Reply(chunks=["Let me", " see"], pause_s=0.05)]
    agent_id = await server.agent(MODEL)
    async with open_stream(server, agent_id, **({"X-RAGFlow-On-Disconnect": policy} if policy else {})) as answer:
        line = await anext(line async for line in answer.aiter_lines() if "Let me" in line)
        run_id = json.loads(line[5:])["message_id"]
    assert await status_of(server, run_id) == status
    listed = (await server.get(f"/agents/{agent_id}/sessions"))["data"]
    assert listed[0]["message"][-1]["content"] == ("Let me" if status == "cancelled" else "Let me see")


async def test_the_default_disconnect_policy_applies_to_unstreamed_answers(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Let me"], hangs=True)], on_disconnect="grace:0.05") as server:
        asking = asyncio.create_task(server.ask(await server.agent(MODEL)))
        await wait_while(lambda: not server.model.is_hanging)
        (run_id,) = server.running  # pyright: ignore[reportPrivateUsage]  # runs are not listed publicly
        asking.cancel()
        assert await status_of(server, run_id) == "cancelled"


async def test_a_quiet_stream_has_heartbeats_except_for_the_oldest_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.http.shared.event_stream.HEARTBEAT_S", 0.02)
    async with start_app(tmp_path, [Reply(chunks=["a"], hangs=True)] * 2, on_disconnect="cancel") as server:
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


async def test_the_clean_up_of_a_stream_without_heartbeats_is_not_cancelled() -> None:
    ended: list[str] = []

    async def produce() -> AsyncGenerator[bytes]:
        try:
            yield b"a"
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("cleanly")

    sent = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            sent.set()

    async def receive() -> dict[str, str]:
        await sent.wait()
        return {"type": "http.disconnect"}

    await event_stream.EventStream(produce(), has_heartbeats=False)({"type": "http"}, receive, send)
    assert ended == ["cleanly"]


PLACES: dict[str, Any] = {"max_runs": 1, "max_waiting_runs": 5, "run_wait_s": 20}


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LOOK_S", 0.02)


def ask(server: AppServer, agent: str, surface: str) -> asyncio.Task[httpx.Response]:
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "ragflow": ("/api/v1/agents/chat/completions", {"agent_id": agent, "query": "hi", "stream": True}),
        "openai": (
            f"/api/v1/agents_openai/{agent}/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True},
        ),
        "native": (f"/native/v1/agents/{agent}/runs/stream", {"query": "hi"}),
    }
    path, body = bodies[surface]
    return asyncio.create_task(server.client.post(f"{server.url}{path}", json=body))


def split_comments(text: str) -> tuple[list[str], str]:
    """Return the comments of a stream, and all other frames."""
    blocks = text.split("\n\n")
    return [block for block in blocks if block.startswith(":")], "\n\n".join(b for b in blocks if b[:1] != ":")


async def test_waiting_clients_learn_their_place_on_every_surface(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("Hello", repeat=True)], **PLACES) as server:
        agent = await server.agent(MODEL)
        release = await server.turns.acquire_slot("tenant")
        answers: list[asyncio.Task[httpx.Response]] = []
        for surface in ("ragflow", "openai", "native"):
            answers.append(ask(server, agent, surface))
            await wait_while(lambda: server.operations.slots.queue_length < len(answers))
        await asyncio.sleep(0.1)
        release()
        ragflow, openai, native = [(await answer).text for answer in answers]
    comments, rest = split_comments(ragflow)
    assert (comments, frames(rest)[0]["event"]) == ([": queued 1"], "workflow_started")
    comments, rest = split_comments(openai)
    assert comments[0] == ": queued 2"
    assert json.loads(rest.split("\n\n")[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "Hello"
    (first_id, event, data), *others = native_frames(native)
    assert (first_id, event, data["event"], data["data"]) == ("", "queued", "queued", {"position": 3})
    runs = {(frame["run_id"], frame["session_id"]) for _, name, frame in others if name != "end"}
    assert (runs, others[-1][2]["run"]["status"]) == ({(data["run_id"], data["session_id"])}, "succeeded")


async def test_a_turn_that_is_refused_after_it_has_waited_ends_its_stream(tmp_path: Path) -> None:
    section: dict[str, Any] = {**PLACES, "run_wait_s": 0.2}
    async with start_app(tmp_path, **section) as server:
        agent = await server.agent(MODEL)
        release = await server.turns.acquire_slot("tenant")
        answers = [ask(server, agent, surface) for surface in ("ragflow", "openai", "native")]
        ragflow, openai, native = [(await answer).text for answer in answers]
        release()
    comments, rest = split_comments(ragflow)
    assert comments
    (frame,) = frames(rest)
    assert "limit" in frame["message"]
    assert '"error":"The server has reached its limit' in openai
    assert openai.endswith("data: [DONE]\n\n")
    assert native_frames(native)[-1][2]["error"]["status"] == 429


async def test_a_turn_that_is_refused_soon_gets_a_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LOOK_S", 20.0)
    section: dict[str, Any] = {**PLACES, "run_wait_s": 0.05}
    async with start_app(tmp_path, **section) as server:
        agent = await server.agent(MODEL)
        release = await server.turns.acquire_slot("tenant")
        answers = [await ask(server, agent, surface) for surface in ("ragflow", "openai", "native")]
        release()
    assert [answer.status_code for answer in answers] == [429] * 3


async def test_a_client_that_leaves_gives_up_its_place(tmp_path: Path) -> None:
    async with start_app(tmp_path, **PLACES) as server:
        agent = await server.agent(MODEL)
        release = await server.turns.acquire_slot("tenant")
        body = {"agent_id": agent, "query": "hi", "stream": True}
        async with server.client.stream("POST", "/agents/chat/completions", json=body) as answer:
            assert (await anext(answer.aiter_text()), server.operations.slots.queue_length) == (": queued 1\n\n", 1)
        await wait_while(lambda: server.operations.slots.queue_length)
        release()
