"""Servers and workers as processes, on a real Redis."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.workers import disturb
from tests.server.http.app_server import frames
from tests.server.queue_processes import start_worker
from tests.server.replicas import TWO_MESSAGES, Replica, replicas

pytestmark = pytest.mark.slow

PATH = "/agents/chat/completions"
QUEUE = """
[queue]
url = "{redis_url}"
max_waiting = 2
silence_s = 0.5
"""


@asynccontextmanager
async def worker(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await start_worker(folder / "settings.toml")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def create_agent(server: Replica) -> str:
    return (await server.client.post("/agents", json={"title": "two", "dsl": TWO_MESSAGES})).json()["data"]["id"]


def _native(server: Replica) -> str:
    return str(server.client.base_url).replace("/api/v1", "/native/v1").rstrip("/")


async def list_runs(server: Replica, agent: str) -> list[dict[str, Any]]:
    return (await server.client.get(f"{_native(server)}/agents/{agent}/runs")).json()["runs"]


async def test_a_queue_without_workers_keeps_runs_refuses_too_many_and_cancels(redis_url: str, tmp_path: Path) -> None:
    more = QUEUE.format(redis_url=redis_url)
    async with MockLLM([reply("ab")]) as model, replicas(tmp_path, redis_url, model.base_url, 1, more=more) as servers:
        server = servers[0]
        agent = await create_agent(server)
        body = {"agent_id": agent, "query": "x", "stream": True}
        waiting = [asyncio.create_task(server.client.post(PATH, json=body)) for _ in range(2)]
        while len(runs := await list_runs(server, agent)) < 2:
            await asyncio.sleep(0.05)
        assert {run["status"] for run in runs} == {"running"}
        assert sorted(run["queue_position"] for run in runs) == [1, 2]
        refused = await server.client.post(PATH, json=body)
        assert refused.status_code == 429, refused.text
        assert int(refused.headers["Retry-After"]) >= 1
        assert len(await list_runs(server, agent)) == 2

        url = f"{_native(server)}/agents/{agent}/runs/{runs[0]['id']}/cancel"
        assert (await server.client.post(url)).status_code < 300
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert [frame["data"] for frame in frames(done.pop().result().text)] == [{}]
        assert (await list_runs(server, agent))[0]["status"] == "cancelled"
        async with worker(tmp_path):
            texts = [answer.text async for answer in _completed(waiting)]
        assert any('"content":"ab"' in text for text in texts)
        assert sorted(run["status"] for run in await list_runs(server, agent)) == ["cancelled", "succeeded"]


async def _completed(tasks: list[asyncio.Task[httpx.Response]]) -> AsyncGenerator[httpx.Response]:
    for task in tasks:
        yield await task


async def test_a_run_that_kills_its_workers_has_failed(redis_url: str, tmp_path: Path) -> None:
    more = QUEUE.format(redis_url=redis_url)
    slow = reply(*["w "] * 200, piece_delay_s=0.1)
    async with (
        MockLLM([slow]) as model,
        replicas(tmp_path, redis_url, model.base_url, 1, takeovers=0, more=more) as servers,
        worker(tmp_path) as victim,
    ):
        server = servers[0]
        agent = await create_agent(server)
        body = {"agent_id": agent, "query": "x", "stream": True}
        playing = asyncio.create_task(server.client.post(PATH, json=body))
        await model.received_request.wait()
        victim.kill()
        async with worker(tmp_path):
            answer = await playing
        assert "servers died while they executed it" in answer.text
        assert [run["status"] for run in await list_runs(server, agent)] == ["failed"]


@pytest.mark.usefixtures("redis_url")
async def test_streams_are_whole_while_workers_and_a_server_are_killed() -> None:
    tally = await disturb(10, 0, 1.0, lambda line: None, workers=2)
    assert tally.problems == []
    assert tally.turns == 10
    assert tally.kills
