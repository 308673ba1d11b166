import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import BaseModel

from ragflow_lg.base.errors import DatabaseError, RagflowLgError, StreamInterruptedError
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.server.http.native.run_responses import write_event_frames
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.streaming.event_codec import StreamEvent
from tests.fakes.services import Reply
from tests.server.http.app_server import FORM, MODEL, AppServer, canvas
from tests.server.http.native.native_client import frames, native, problem


async def test_all_modes_return_the_same_run(server: AppServer) -> None:
    server.model.replies += [Reply("Hello")] * 3
    client = native(server, await server.agent(MODEL))
    whole = (await client.post("/runs?mode=wait", json={"query": "hi"})).json()
    streamed = frames((await client.post("/runs?mode=stream", json={"query": "hi"})).text)[-1][2]["run"]
    begun = (await client.post("/runs?mode=background", json={"query": "hi"})).json()
    followed = frames((await client.get(f"/runs/{begun['id']}/events")).text)[-1][2]["run"]
    for run in (whole, streamed, followed):
        assert (run["status"], run["answer"]) == ("succeeded", "Hello")
        assert (await client.get(f"/runs/{run['id']}")).json() == run


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_an_invalid_canvas_creates_no_session(server: AppServer, mode: str) -> None:
    client = native(server, await server.agent(canvas(("begin", "Begin", {}, ["nowhere"]))))
    refused = await client.post(f"/runs?mode={mode}", json={"query": "hi"})
    assert problem(refused) == (422, "canvas-invalid")
    assert refused.json()["error"]["details"]["diagnostics"]
    assert (await client.get("/sessions")).json()["total"] == 0


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_one_of_several_concurrent_answers_is_accepted(
    server: AppServer, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.http.native.run_responses.START_TIMEOUT_S", 60.0)
    client = native(server, await server.agent(FORM))
    run = (await client.post("/runs", json={})).json()
    path = f"/runs/{run['id']}/resume?mode={mode}"
    answers = [client.post(path, json={"fields": {"size": size}}) for size in range(5)]
    statuses = [answer.status_code for answer in await asyncio.gather(*answers)]
    assert sorted(statuses) == [202 if mode == "background" else 200, 409, 409, 409, 409]
    messages = (await client.get(f"/sessions/{run['session_id']}")).json()["messages"]
    assert len([row for row in messages if row["role"] == "user"]) == 2


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_a_busy_session_refuses_more_runs(server: AppServer, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server.model.replies += [Reply(chunks=["a"], hangs=True)] * 2
    client = native(server, await server.agent(MODEL))
    run = (await client.post("/runs?mode=background", json={"query": "hi"})).json()
    await client.post(f"/runs/{run['id']}/cancel")
    async with asyncio.timeout(10):
        while (await client.get(f"/runs/{run['id']}")).json()["status"] != "cancelled":
            await asyncio.sleep(0.01)
    path = f"/runs/{run['id']}/continue"
    # The check before the lease passes: the lease itself refuses.
    monkeypatch.setattr(RunControl, "require_free", AsyncMock())
    lease = await server.app_state.store.leases.acquire(run["session_id"], lambda: None)
    assert problem(await client.post(f"{path}?mode={mode}")) == (409, "session-busy")
    await lease.release()


async def test_the_cancel_policy_cancels_a_run_without_followers(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["a"], hangs=True)]
    client = native(server, await server.agent(MODEL))
    run_id = ""
    async with client.stream("POST", "/runs/stream?on_disconnect=cancel", json={"query": "hi"}) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                run_id = line.partition('"run_id":"')[2][:32]
                break
    async with asyncio.timeout(10):
        while (await client.get(f"/runs/{run_id}")).json()["status"] != "cancelled":
            await asyncio.sleep(0.01)


class State(BaseModel):
    status: str = "succeeded"


async def show() -> BaseModel:
    return State()


async def fail() -> BaseModel:
    raise DatabaseError("It is down.")


async def pages(*items: StreamEvent, error: RagflowLgError | None = None) -> AsyncGenerator[list[Any]]:
    for number, event in enumerate(items, 1):
        yield [(number, event)]
    if error is not None:
        raise error


async def read(stream: AsyncGenerator[bytes]) -> list[tuple[str, str, Any]]:
    return frames(b"".join([frame async for frame in stream]).decode())


async def test_the_last_frame_has_the_error_that_interrupted_the_stream() -> None:
    broken = pages(Message("Hi"), error=StreamInterruptedError("The server has stopped."))
    received = await read(write_event_frames("r", "s", None, broken, show))
    assert [name for _, name, _ in received] == ["message", "end"]
    assert received[-1][2]["error"]["code"] == "run-interrupted"
    down = await read(write_event_frames("r", "s", None, pages(), fail))
    assert (down[-1][2]["run"], down[-1][2]["error"]["message"]) == (None, "It is down.")
