import asyncio
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from ragflow_lg.server.runs.run_control import RunControl
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
