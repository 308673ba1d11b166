import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.http.shared import event_stream
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, AppServer, frames, start_app
from tests.server.http.native.native_client import frames as native_frames

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
        for number, surface in enumerate(("ragflow", "openai", "native"), 1):
            answers.append(ask(server, agent, surface))
            while server.operations.slots.queue_length < number:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        release()
        ragflow, openai, native = [(await answer).text for answer in answers]
    comments, rest = split_comments(ragflow)
    assert comments == [": queued 1"]
    assert frames(rest)[0]["event"] == "workflow_started"
    comments, rest = split_comments(openai)
    assert comments[0] == ": queued 2"
    assert json.loads(rest.split("\n\n")[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "Hello"
    (first_id, event, data), *others = native_frames(native)
    assert (first_id, event, data["event"], data["data"]) == ("", "queued", "queued", {"position": 3})
    runs = {(frame["run_id"], frame["session_id"]) for _, name, frame in others if name != "end"}
    assert runs == {(data["run_id"], data["session_id"])}
    assert others[-1][2]["run"]["status"] == "succeeded"


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
            assert await anext(answer.aiter_text()) == ": queued 1\n\n"
            assert server.operations.slots.queue_length == 1
        while server.operations.slots.queue_length:
            await asyncio.sleep(0.001)
        release()
