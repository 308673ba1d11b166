import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.database.tables import MessageRow
from ragflow_lg.server.runs.continuation import NEVER_BEGAN
from ragflow_lg.server.runs.turn_session import messages_before
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.first_key import read_first_key
from tests.harness.loaded_python import python_command
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT
from tests.server.http.app_server import ECHO, FORM, asks, canvas
from tests.server.http.native.native_client import frames, problem
from tests.server.waiting import wait_while
from tests.stores import fresh_prefix

CHAIN = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m@Mock", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["LLM:1"]),
    ("LLM:1", "LLM", {"llm_id": "m@Mock", "prompts": [{"role": "user", "content": "{LLM:0@content}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:1@content}"]}, []),
)
ANSWER = asks("hi", llm_id="m@Mock")


class ServerProcess:
    """A server process. It prints its key at the first start only."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, key: str) -> None:
        self.process, self.url, self.key = process, url, key

    def client(self, path: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url + path, headers={"Authorization": f"Bearer {self.key}"}, timeout=30)

    async def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def start_server(folder: Path, key: str = "") -> AsyncGenerator[ServerProcess]:
    """Start a server in a folder that holds all its data."""
    settings = folder / "ragflow-lg.toml"
    process = await asyncio.create_subprocess_exec(
        *python_command("-m", "ragflow_lg", "serve", "--port", "0"),
        *(["--settings", str(settings)] if settings.is_file() else []),
        stdout=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        if not key:
            key = read_first_key(await process.stdout.readline())
        yield ServerProcess(process, url, key)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def create_agent(server: ServerProcess, dsl: dict[str, Any]) -> str:
    async with server.client("/api/v1") as client:
        return (await client.post("/agents", json={"title": "A", "dsl": dsl})).json()["data"]["id"]


async def test_a_pause_outlives_the_server(tmp_path: Path) -> None:
    async with start_server(tmp_path) as server:
        path = f"/native/v1/agents/{await create_agent(server, FORM)}"
        async with server.client(path) as client:
            run = (await client.post("/runs", json={"query": "hi"})).json()
        assert run["status"] == "waiting"
        await server.end(signal.SIGTERM)
    async with start_server(tmp_path, server.key) as again, again.client(path) as client:
        assert (await client.get(f"/runs/{run['id']}")).json() == run
        response = await client.get(f"/runs/{run['id']}/events")
        assert (response.status_code, response.json()["error"]["code"]) == (410, "events-gone")
        answers = {run["pauses"][0]["id"]: {"size": 42}}
        result = (await client.post(f"/runs/{run['id']}/resume", json={"answers": answers})).json()
        assert (result["status"], result["answer"]) == ("succeeded", "Size 42")
        messages = (await client.get(f"/sessions/{run['session_id']}")).json()["messages"]
        assert [row["content"] for row in messages] == ["hi", "Which size?", "Size: 42", "Size 42"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_restarted_server_continues_runs_without_finished_nodes(tmp_path: Path, number: signal.Signals) -> None:
    async with MockLLM([reply("first"), reply("never", delay_s=60), reply("second")]) as model:
        (tmp_path / "ragflow-lg.toml").write_text(
            f'[server]\ndrain_s = 0.1\n[providers.Mock]\nbase_url = "{model.base_url}"\n'
        )
        async with start_server(tmp_path) as server:
            path = f"/native/v1/agents/{await create_agent(server, CHAIN)}"
            async with server.client(path) as client:
                run = (await client.post("/runs?mode=background", json={"query": "hi"})).json()
                await wait_while(lambda: len(model.requests) < 2)
                await server.end(number)
        async with start_server(tmp_path, server.key) as again, again.client(path) as client:
            async with asyncio.timeout(60):
                while (await client.get(f"/runs/{run['id']}")).json()["status"] != "succeeded":
                    await asyncio.sleep(0.1)
            whole = await client.get(f"/runs/{run['id']}/events")
            last = frames(whole.text)[-1][2]["run"]
            assert (last["id"], last["status"], last["answer"]) == (run["id"], "succeeded", "second")
            assert [name for _, name, _ in frames(whole.text)].count("node_finished") == 4
            messages = (await client.get(f"/sessions/{run['session_id']}")).json()["messages"]
            assert ([row["content"] for row in messages], len(model.requests)) == (["hi", "second"], 3)
            old = await client.get(f"/runs/{run['id']}/events", headers={"Last-Event-ID": f"{run['id']}:3"})
            assert problem(old) == (410, "events-gone")


async def test_a_run_never_began_if_its_server_was_killed_before_it_stored_the_request(tmp_path: Path) -> None:
    (tmp_path / "ragflow-lg.toml").write_text(
        'checkpoints = "sqlite:///sessions.db"\n[server]\ndatabase = "sqlite:///server.db"\n'
    )
    async with start_server(tmp_path) as server:
        path = f"/native/v1/agents/{await create_agent(server, ECHO)}"
        async with server.client(path) as client:
            first = (await client.post("/runs", json={"query": "hi"})).json()
            body = {"query": "again", "session_id": first["session_id"]}
            with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")  # what the server stores now waits
                starting = asyncio.create_task(client.post("/runs", json=body))
                with closing(sqlite3.connect(tmp_path / "server.db")) as database:
                    while len(ids := database.execute("SELECT id FROM runs ORDER BY start_ms").fetchall()) < 2:
                        await asyncio.sleep(0.01)
                await server.end(signal.SIGKILL)
            with suppress(httpx.HTTPError):
                await starting
    async with start_server(tmp_path, server.key) as again, again.client(path) as client:
        run = f"/runs/{ids[1][0]}"
        shown = (await client.get(run)).json()
        assert (shown["status"], shown["error"]) == ("refused", NEVER_BEGAN)
        assert problem(await client.post(f"{run}/continue")) == (409, "run-not-begun")
        assert (first["status"], (await client.post("/runs", json=body)).json()["status"]) == ("succeeded", "succeeded")


async def test_a_client_continues_on_another_replica_when_its_own_is_killed(tmp_path: Path, redis_url: str) -> None:
    slow = reply(*(f"w{number} " for number in range(400)), piece_delay_s=0.1)
    async with MockLLM([slow, reply("again")]) as model:
        (tmp_path / "ragflow-lg.toml").write_text(
            f'checkpoints = "{redis_url}"\ncheckpoint_prefix = "{fresh_prefix()}"\n'
            f'[providers.Mock]\nbase_url = "{model.base_url}"\n'
        )
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(start_server(tmp_path))
            path = f"/native/v1/agents/{await create_agent(one, ANSWER)}"
            async with one.client(path) as first, first.stream("POST", "/runs/stream", json={}) as answer:
                seen = await _read(answer, until="w3")
                other = await stack.enter_async_context(start_server(tmp_path, one.key))
                client = await stack.enter_async_context(other.client(path))
                run_id = seen[0][2]["run_id"]
                elsewhere = asyncio.create_task(client.get(f"/runs/{run_id}/events"))
                await asyncio.sleep(0.1)
                assert (await client.get(f"/runs/{run_id}")).json()["status"] == "running"
                await one.end(signal.SIGKILL)
            whole = frames((await elsewhere).text)
            assert whole[: len(seen)] == seen
            numbers = [int(id_.partition(":")[2]) for id_, _, _ in whole[:-1]]
            assert numbers == sorted(set(numbers))  # the failover marker takes a number as well
            assert (whole[-1][2]["error"], whole[-1][2]["run"]["status"]) == (None, "succeeded")
            rest = await client.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": seen[-1][0]})
            assert frames(rest.text) == whole[len(seen) :]
            assert (await client.get(f"/runs/{run_id}")).json()["answer"].endswith("again")


async def _read(answer: httpx.Response, until: str) -> list[Any]:
    text = ""
    async for piece in answer.aiter_text():
        text += piece
        if until in text and text.endswith("\n\n"):
            return frames(text)
    raise AssertionError(text)


@each_row(
    ("users", "is_open", "expected"),
    [(0, True, "p"), (1, True, "pa"), (1, False, "paA"), (2, True, "paAb"), (2, False, "paAbBC"), (9, False, "paAbBC")],
)
def test_a_copy_contains_the_messages_up_to_its_checkpoint(users: int, is_open: bool, expected: str) -> None:
    messages = [MessageRow(role="user" if text in "ab" else "assistant", content=text) for text in "paAbBC"]
    assert "".join(row.content for row in messages_before(messages, users, is_open=is_open)) == expected
