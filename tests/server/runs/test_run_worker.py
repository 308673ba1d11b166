"""Servers and workers as processes, on a real Redis."""

import asyncio
import json
import re
import signal
import sqlite3
import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.streaming.run_queue import QueueState, open_queue
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.workers import disturb
from tests.server.http.app_server import MODEL, canvas, frames
from tests.server.queue_processes import end, start_worker
from tests.server.replicas import TWO_MESSAGES, Replica, replicas

pytestmark = pytest.mark.slow

PATH = "/agents/chat/completions"
QUEUE = """
[queue]
url = "{redis_url}"
silence_s = 0.5
"""


@asynccontextmanager
async def worker(folder: Path, concurrency: int = 8) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await start_worker(folder / "settings.toml", concurrency)
    try:
        yield process
    finally:
        await end(process)


@asynccontextmanager
async def queueing(
    folder: Path, redis_url: str, model: MockLLM, queue: str = QUEUE, **more: Any
) -> AsyncGenerator[Replica]:
    """Start a server that leaves its runs to workers."""
    queue = queue.format(redis_url=redis_url)
    async with replicas(folder, redis_url, model.base_url, 1, more=queue, plays=False, **more) as servers:
        yield servers[0]


async def create_agent(server: Replica) -> str:
    made = await server.client.post("/agents", json={"title": "two", "dsl": TWO_MESSAGES})
    return made.json()["data"]["id"]


def _native(server: Replica) -> str:
    return str(server.client.base_url).replace("/api/v1", "/native/v1").rstrip("/")


async def list_runs(server: Replica, agent: str) -> list[dict[str, Any]]:
    return (await server.client.get(f"{_native(server)}/agents/{agent}/runs")).json()["runs"]


async def test_a_queue_without_workers_keeps_runs_refuses_too_many_and_cancels(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGFLOW_LG_SERVER__MAX_WAITING_RUNS", "2")
    async with MockLLM([reply("ab")]) as model, queueing(tmp_path, redis_url, model) as server:
        agent = await create_agent(server)
        body = {"agent_id": agent, "query": "x", "stream": True}
        waiting = [asyncio.create_task(server.client.post(PATH, json=body)) for _ in range(2)]
        runs: list[dict[str, Any]] = []
        while sorted(run["queue_position"] for run in runs) != [1, 2]:
            await asyncio.sleep(0.05)
            runs = await list_runs(server, agent)
        assert {run["status"] for run in runs} == {"running"}
        refused = await server.client.post(PATH, json=body)
        assert refused.status_code == 429, refused.text
        assert int(refused.headers["Retry-After"]) >= 1
        assert len(await list_runs(server, agent)) == 2

        url = f"{_native(server)}/agents/{agent}/runs/{runs[0]['id']}/cancel"
        assert (await server.client.post(url)).status_code < 300
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=120)
        text = re.sub(r": queued \d+\n\n", "", done.pop().result().text)
        assert [frame["data"] for frame in frames(text)] == [{}]
        assert (await list_runs(server, agent))[0]["status"] == "cancelled"
        async with worker(tmp_path):
            texts = [answer.text async for answer in _completed(waiting)]
        assert any('"content":"ab"' in text for text in texts)
        assert sorted(run["status"] for run in await list_runs(server, agent)) == ["cancelled", "succeeded"]


async def test_a_client_is_told_if_redis_has_lost_its_run(redis_url: str, tmp_path: Path) -> None:
    async with MockLLM([reply("ab")]) as model, queueing(tmp_path, redis_url, model) as server:
        agent = await create_agent(server)
        body = {"agent_id": agent, "query": "x", "stream": True}
        waiting = asyncio.create_task(server.client.post(PATH, json=body))
        while not await list_runs(server, agent):
            await asyncio.sleep(0.05)
        prefix = tomllib.loads((tmp_path / "settings.toml").read_text())["checkpoint_prefix"]
        redis: Any = Redis.from_url(redis_url)  # pyright: ignore[reportUnknownMemberType]
        async with redis as client:
            await asyncio.sleep(0.5)
            async for key in client.scan_iter(f"{prefix}agent:*"):
                await client.delete(key)
        assert "interrupted" in (await waiting).text
        assert (await list_runs(server, agent))[0]["status"] == "refused"  # nothing was stored


async def _completed(tasks: list[asyncio.Task[httpx.Response]]) -> AsyncGenerator[httpx.Response]:
    for task in tasks:
        yield await task


async def test_a_run_that_kills_its_workers_has_failed(redis_url: str, tmp_path: Path) -> None:
    slow = reply(*["w "] * 200, piece_delay_s=0.1)
    async with (
        MockLLM([slow]) as model,
        queueing(tmp_path, redis_url, model, takeovers=0) as server,
        worker(tmp_path) as victim,
    ):
        agent = await create_agent(server)
        body = {"agent_id": agent, "query": "x", "stream": True}
        playing = asyncio.create_task(server.client.post(PATH, json=body))
        await model.received_request.wait()
        victim.kill()
        async with worker(tmp_path):
            answer = await playing
        assert "servers died or lost its session while they executed it" in answer.text
        assert [run["status"] for run in await list_runs(server, agent)] == ["failed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_run_without_any_worker_waits(redis_url: str, tmp_path: Path, number: signal.Signals) -> None:
    slow = reply(*["w "] * 600, piece_delay_s=0.1)
    async with MockLLM([slow, reply("a")]) as model, queueing(tmp_path, redis_url, model) as server:
        agent = await native_agent(server, server.client.headers["Authorization"], MODEL)
        async with worker(tmp_path) as stopped:
            await order(agent, "x")
            await model.received_request.wait()
            assert (await agent.get("/runs")).json()["runs"][0]["queue_position"] == 0
            stopped.send_signal(number)
            await stopped.wait()
        async with asyncio.timeout(30):
            while not (run := (await agent.get("/runs")).json()["runs"][0])["queue_position"]:
                await asyncio.sleep(0.1)
        assert (run["status"], run["queue_position"]) == ("running", 1)
        if number == signal.SIGTERM:
            state = await queue_state(redis_url, tmp_path)
            assert (state.waiting, state.open) == ([run["id"]], 1)
        async with worker(tmp_path):
            assert (await ended(agent, 1))[0]["status"] == "succeeded"
        await agent.aclose()


async def queue_state(redis_url: str, folder: Path) -> QueueState:
    prefix = tomllib.loads((folder / "settings.toml").read_text())["checkpoint_prefix"]
    async with open_queue(redis_url, prefix=prefix, silence_s=0.5) as queue:
        return await queue.state()


SHARED = """
[queue]
url = "{redis_url}"
[tenants."*"]
models = ["*"]
[tenants.default]
models = ["*"]
runs = 4
[pauses]
timeout_s = 1
"""
DEFAULTED = {"size": {"name": "Size", "type": "integer", "value": 42}}
ASKING = canvas(
    ("begin", "Begin", {}, ["UserFillUp:0"]),
    ("UserFillUp:0", "UserFillUp", {"inputs": DEFAULTED}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Size {UserFillUp:0@size}"]}, []),
)


async def test_the_order_quotas_and_time_limits_of_forms_hold_for_all_processes(redis_url: str, tmp_path: Path) -> None:
    async with MockLLM([reply("ok")]) as model, queueing(tmp_path, redis_url, model, SHARED) as server:
        agents = [(server.client.headers["Authorization"], MODEL), (await create_key(tmp_path, "other"), MODEL)]
        one, other = [await native_agent(server, *each) for each in agents]
        answers = [await order(one, query) for query in ("a1", "a2")]
        made = await one.post("/schedules", json={"cron": "0 0 1 1 *", "query": "background"})
        assert made.status_code == 201, made.text
        make_schedules_due(tmp_path)
        while (await one.get("/runs")).json()["total"] < 3:
            await asyncio.sleep(0.05)
        answers += [await order(one, "a3"), await order(one, "a4"), await order(other, "b1"), await order(other, "b2")]
        assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 202, 202]
        assert answers[3].json()["error"]["details"]["quota"] == "runs"
        async with worker(tmp_path, concurrency=1):
            await ended(one, 4)
            await ended(other, 2)
            asked = [str(one.body["messages"][-1]["content"]) for one in model.requests if one.end and one.body]
            assert asked == ["a1", "a2", "background", "a3", "b1", "b2"]
            asking = await native_agent(server, agents[0][0], ASKING)
            await order(asking, "hi")
            answered, waiting = await ended(asking, 2)
            assert (answered["status"], waiting["status"]) == ("succeeded", "answered")
            assert answered["parent_run_id"] == waiting["id"]
        for client in (one, other, asking):
            await client.aclose()


async def order(agent: httpx.AsyncClient, query: str) -> httpx.Response:
    return await agent.post("/runs?mode=background", json={"query": query})


async def ended(agent: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """Wait until an agent has a number of runs and none is running or waiting; return them, newest first."""
    async with asyncio.timeout(60):
        while True:
            runs = (await agent.get("/runs")).json()["runs"]
            if len(runs) == count and not any(run["status"] in ("running", "waiting") for run in runs):
                return runs
            await asyncio.sleep(0.05)


async def create_key(folder: Path, tenant: str) -> str:
    async with open_database(f"sqlite:///{folder}/server.db") as database:
        return f"Bearer {await KeyRepository(database).create(tenant, 1)}"


async def native_agent(server: Replica, authorization: str, dsl: dict[str, Any]) -> httpx.AsyncClient:
    """Create an agent; return a client of it."""
    headers = {"Authorization": authorization}
    made = await server.client.post("/agents", json={"title": str(len(str(dsl))), "dsl": dsl}, headers=headers)
    return httpx.AsyncClient(base_url=f"{_native(server)}/agents/{made.json()['data']['id']}", headers=headers)


def make_schedules_due(folder: Path) -> None:
    with sqlite3.connect(folder / "server.db") as raw:
        raw.execute("UPDATE schedules SET due_ms = 0")


@pytest.mark.usefixtures("redis_url")
async def test_streams_are_whole_while_workers_and_a_server_are_killed() -> None:
    tally = await disturb(10, 0, 1.0, lambda line: None, workers=2)
    assert (tally.problems, tally.turns) == ([], 10)
    assert tally.kills


async def test_a_response_goes_on_at_another_server(redis_url: str, tmp_path: Path) -> None:
    slow, queue = reply(*"abcdefghij", piece_delay_s=0.2), QUEUE.format(redis_url=redis_url)
    async with (
        MockLLM([slow, reply("second")]) as model,
        replicas(tmp_path, redis_url, model.base_url, 2, more=queue, plays=False) as (first, second),
        worker(tmp_path),
    ):
        agent, received = await create_agent(first), list[dict[str, Any]]()
        urls = [
            str(server.client.base_url).replace("/api/v1", "/v1/responses").rstrip("/") for server in (first, second)
        ]
        body = {"model": agent, "input": "x", "stream": True}
        with suppress(httpx.TransportError):
            async with first.client.stream("POST", urls[0], json=body) as answer:
                async for line in answer.aiter_lines():
                    received += events_of(line)
                    if len(received) == 6:
                        first.process.kill()
        assert received[-1]["type"] == "response.output_text.delta"
        place = f"{urls[1]}/{received[0]['response']['id']}"
        rest = await second.client.get(place, params={"stream": True, "starting_after": len(received) - 1})
        received += events_of(rest.text)
        assert [event["sequence_number"] for event in received] == list(range(len(received)))
        done = received[-1]["response"]
        assert [item["content"][0]["text"] for item in done["output"]] == ["abcdefghij", "second"]
        assert (await second.client.get(place)).json() == done
        following = {"model": agent, "input": "y", "previous_response_id": done["id"]}
        assert (await second.client.post(urls[1], json=following)).json()["session_id"] == done["session_id"]


def events_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
