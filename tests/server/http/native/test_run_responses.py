import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import BaseModel
from starlette.requests import Request

from ragflow_lg.base.errors import (
    DatabaseError,
    RagflowLgError,
    RequestError,
    StreamInterruptedError,
    StreamPositionError,
)
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.server.http.native.run_responses import read_event_position, write_event_frames
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.streaming.event_codec import StreamEvent
from ragflow_lg.server.streaming.run_manager import EventPage
from tests.fakes.services import Reply
from tests.server.http.app_server import FORM, MODEL, canvas
from tests.server.http.native.native_client import frames, native_agent, problem


async def test_all_modes_return_the_same_run(tmp_path: Path) -> None:
    async with native_agent(tmp_path, MODEL, [Reply("Hello")] * 3) as (_, client):
        whole = (await client.post("/runs?mode=wait", json={"query": "hi"})).json()
        streamed = frames((await client.post("/runs?mode=stream", json={"query": "hi"})).text)[-1][2]["run"]
        begun = (await client.post("/runs?mode=background", json={"query": "hi"})).json()
        followed = frames((await client.get(f"/runs/{begun['id']}/events")).text)[-1][2]["run"]
        for run in (whole, streamed, followed):
            assert (run["status"], run["answer"]) == ("succeeded", "Hello")
            assert (await client.get(f"/runs/{run['id']}")).json() == run


async def test_records_of_agents_are_sent_on_request(tmp_path: Path) -> None:
    async with native_agent(tmp_path, MODEL, [Reply("Hello")]) as (_, client):
        run = frames((await client.post("/runs/stream?records=true", json={"query": "hi"})).text)[-1][2]["run"]
        plain = (await client.get(f"/runs/{run['id']}/events?records=false")).text
        assert (await client.get(f"/runs/{run['id']}/events?records=true")).text == plain


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_an_invalid_canvas_creates_no_session(tmp_path: Path, mode: str) -> None:
    async with native_agent(tmp_path, canvas(("begin", "Begin", {}, ["nowhere"]))) as (_, client):
        refused = await client.post(f"/runs?mode={mode}", json={"query": "hi"})
        assert problem(refused) == (422, "canvas-invalid")
        assert refused.json()["error"]["details"]["diagnostics"]
        assert (await client.get("/sessions")).json()["total"] == 0


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_one_of_several_concurrent_answers_is_accepted(tmp_path: Path, mode: str) -> None:
    async with native_agent(tmp_path, FORM) as (_, client):
        run = (await client.post("/runs", json={})).json()
        path = f"/runs/{run['id']}/resume?mode={mode}"
        answers = [client.post(path, json={"fields": {"size": size}}) for size in range(5)]
        statuses = [answer.status_code for answer in await asyncio.gather(*answers)]
        assert sorted(statuses) == [202 if mode == "background" else 200, 409, 409, 409, 409]
        messages = (await client.get(f"/sessions/{run['session_id']}")).json()["messages"]
        assert len([row for row in messages if row["role"] == "user"]) == 2


@pytest.mark.parametrize("mode", ["wait", "stream", "background"])
async def test_a_busy_session_refuses_another_run(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with native_agent(tmp_path, MODEL, [Reply(chunks=["a"], hangs=True)] * 2) as (server, client):
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


async def test_the_cancel_policy_cancels_a_run_without_followers(tmp_path: Path) -> None:
    async with native_agent(tmp_path, MODEL, [Reply(chunks=["a"], hangs=True)]) as (_, client):
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


async def pages(*items: StreamEvent, error: RagflowLgError | None = None) -> AsyncGenerator[EventPage[StreamEvent]]:
    for number, event in enumerate(items, 1):
        yield EventPage([(number, event)])
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


def _request(last: str | None) -> Request:
    headers = [] if last is None else [(b"last-event-id", last.encode())]
    return Request({"type": "http", "headers": headers})


def test_the_header_overrides_the_query() -> None:
    assert read_event_position(_request("r:7"), "r", "2") == 7
    assert read_event_position(_request("7"), "r", None) == 7
    assert read_event_position(_request(None), "r", "2") == 1
    assert read_event_position(_request(None), "r", None) == 0
    with pytest.raises(RequestError, match="belongs to another run"):
        read_event_position(_request("other:7"), "r", None)
    with pytest.raises(StreamPositionError):
        read_event_position(_request("r:x"), "r", None)
