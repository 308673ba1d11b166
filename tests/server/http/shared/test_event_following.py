from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.run_repository import RunRepository
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, start_app

PATH = "/agents/chat/completions"
IDS = {"X-RAGFlow-Event-Ids": "true"}


def with_ids(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Read native frames that have ids."""
    found: list[tuple[str, dict[str, Any]]] = []
    for block in text.removesuffix("data:[DONE]\n\n").strip().split("\n\n"):
        id_, data = block.split("\n")
        found.append((id_.removeprefix("id:"), json.loads(data.removeprefix("data:"))))
    return found


@asynccontextmanager
async def asking(server: AppServer, agent_id: str, **headers: str) -> AsyncIterator[httpx.Response]:
    body = {"agent_id": agent_id, "query": "hi", "stream": True}
    async with server.client.stream("POST", PATH, json=body, headers=headers) as answer:
        yield answer


async def status_of(server: AppServer, run_id: str) -> str:
    async with asyncio.timeout(5):
        while (row := await RunRepository(server.app_state.database, "tenant").get(run_id)) is None or not row.end_ms:
            await asyncio.sleep(0.005)
        return row.status


async def test_ids_are_told_to_who_asks_and_with_one_the_same_request_goes_on(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Hell", "o"])]) as server:
        body = {"agent_id": await server.agent(MODEL), "query": "hi", "stream": True}
        told = (await server.client.post(PATH, json=body, headers=IDS)).text
        frames = with_ids(told)
        run_id = frames[0][1]["message_id"]
        assert [id_ for id_, _ in frames] == [f"{run_id}:{number}" for number in range(1, len(frames) + 1)]
        for place in ({"Last-Event-ID": frames[4][0]}, {"Last-Event-ID": f"{run_id}:5"}):
            again = (await server.client.post(PATH, json=body, headers=place)).text
            assert with_ids(again) == frames[5:]
        named = await server.client.post(f"{PATH}?run_id={run_id}&from=6", json=body)
        assert with_ids(named.text) == frames[5:]
        last = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[-1][0]})
        assert last.text == "data:[DONE]\n\n"
        whole = await server.client.post(PATH, json={**body, "stream": False}, headers={"Last-Event-ID": frames[4][0]})
        assert whole.json()["data"]["data"]["content"] == "Hello"
        assert len(server.model.requests) == 1


async def test_a_trace_is_told_whole_to_who_comes_back(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        session = await server.session(agent_id)
        body = {"agent_id": agent_id, "query": "hi", "stream": True, "session_id": session, "return_trace": True}
        frames = with_ids((await server.client.post(PATH, json=body, headers=IDS)).text)
        again = await server.client.post(PATH, json=body, headers={"Last-Event-ID": frames[1][0]})
        assert with_ids(again.text) == frames[2:]


async def test_a_place_that_is_none_or_anothers_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id, other_agent = await server.agent(ECHO), await server.agent(ECHO, "Other")
        frames = await server.stream(agent_id)
        run_id = frames[0]["message_id"]
        other = await KeyRepository(server.app_state.database).create("other", 1)
        theirs = {"Authorization": f"Bearer {other}"}
        made = await server.client.post("/agents", json={"title": "Mine", "dsl": ECHO}, headers=theirs)
        body = {"stream": True, "query": "hi"}
        cases: list[tuple[str, dict[str, str], str, int, str]] = [
            (agent_id, {}, "7", 101, "RUN:NUMBER"),
            (agent_id, {}, f"{run_id}:99", 101, "has had events"),
            (agent_id, {}, f"{run_id}:x", 101, "number of an event"),
            (agent_id, {}, "0:1", 102, "no events of a run"),
            (other_agent, {}, f"{run_id}:1", 102, "Session not found!"),
            (made.json()["data"]["id"], theirs, f"{run_id}:1", 102, "There is no run"),
        ]
        for asked, key, place, code, told in cases:
            headers = {**key, "Last-Event-ID": place}
            answer = await server.client.post(PATH, json={**body, "agent_id": asked}, headers=headers)
            assert told in answer.json()["message"], (place, answer.text)
            assert answer.json()["code"] == code


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("continue", "succeeded"), ("", "succeeded")])
async def test_what_becomes_of_a_run_whose_client_leaves_is_said_by_the_request(
    tmp_path: Path, policy: str, status: str
) -> None:
    hangs = Reply(chunks=["Let me"], hangs=True)
    reply = hangs if policy == "cancel" else Reply(chunks=["Let me", " see"], pause_s=0.05)
    async with start_app(tmp_path, [reply]) as server:
        agent_id = await server.agent(MODEL)
        async with asking(server, agent_id, **({"X-RAGFlow-On-Disconnect": policy} if policy else {})) as answer:
            async for line in answer.aiter_lines():
                if "Let me" in line:
                    run_id = json.loads(line[5:])["message_id"]
                    break
        assert await status_of(server, run_id) == status
        listed = (await server.client.get(f"/agents/{agent_id}/sessions")).json()["data"]
        said = listed[0]["message"][-1]["content"]
        assert said == ("Let me" if status == "cancelled" else "Let me see")


async def test_the_settings_say_it_for_all_and_for_answers_in_one_piece_too(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Let me"], hangs=True)], on_disconnect="grace:0.05") as server:
        agent_id = await server.agent(MODEL)
        asking = asyncio.create_task(server.ask(agent_id))
        while not server.model.is_hanging:
            await asyncio.sleep(0.005)
        (run_id,) = server.app_state.run_manager._tasks
        asking.cancel()
        assert await status_of(server, run_id) == "cancelled"


async def test_an_odd_policy_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        headers = {"X-RAGFlow-On-Disconnect": "perhaps"}
        body = {"agent_id": await server.agent(ECHO), "query": "x"}
        told = (await server.client.post(PATH, json=body, headers=headers)).json()
        assert (told["code"], "grace:SECONDS" in told["message"]) == (101, True)


async def test_a_quiet_stream_has_heartbeats_but_not_for_the_oldest_clients(tmp_path: Path) -> None:
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
