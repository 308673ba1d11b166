from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.database.key_repository import KeyRepository
from tests.server.http.app_server import ECHO, FORM, AppServer, frames, start_app

MISSING = "0" * 32


@asynccontextmanager
async def embedded(folder: Path, **section: Any) -> AsyncGenerator[tuple[AppServer, dict[str, str]]]:
    async with start_app(folder, **section) as server:
        key = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        yield server, {"Authorization": f"Bearer {key}"}


async def test_a_page_streams_all_events_and_continues_its_session(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (server, beta):
        path = f"/agentbots/{await server.agent(ECHO)}/completions"
        received = frames((await server.client.post(path, json={"question": "Hi"}, headers=beta)).text)
        assert [received[0]["event"], received[-1]["event"]] == ["workflow_started", "workflow_finished"]
        body = {"query": "again", "session_id": received[0]["session_id"], "stream": False}
        answer = (await server.client.post(path, json=body, headers=beta)).json()
        assert (answer["data"]["event"], answer["data"]["data"]["content"]) == ("workflow_finished", "You said again")
        received = frames((await server.client.post(path, json={**body, "stream": True}, headers=beta)).text)
        assert "node_started" in [frame["event"] for frame in received]
        (row,) = (await server.client.get(f"/agents/{path.split('/')[2]}/sessions")).json()["data"]
        assert (row["source"], row["round"]) == ("agent", 3)
        released = await server.client.post(f"{path}?release=true", json={"query": "Hi"}, headers=beta)
        assert "no published version" in released.json()["message"]


async def test_a_page_receives_what_it_shows(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (server, beta):
        agent_id = await server.agent(ECHO, avatar="data:x")
        data = (await server.client.get(f"/agentbots/{agent_id}/inputs", headers=beta)).json()
        assert data == {
            "code": 0,
            "message": "",
            "data": {
                "title": "Helper",
                "avatar": "data:x",
                "inputs": {},
                "prologue": "Hi there!",
                "mode": "conversational",
            },
        }
        assert (await server.client.get(f"/agentbots/{agent_id}/logs/{MISSING}", headers=beta)).json()["data"] == {}


async def test_beta_keys_and_api_keys_are_not_interchangeable(tmp_path: Path) -> None:
    async with embedded(tmp_path) as (server, beta):
        agent_id = await server.agent(ECHO)
        for method, path in (
            ("GET", "/agents"),
            ("GET", f"/agents/{agent_id}"),
            ("DELETE", f"/agents/{agent_id}"),
            ("GET", f"/agents/{agent_id}/sessions"),
            ("POST", f"/agents/{agent_id}/completions"),
            ("POST", f"/agents/{agent_id}/reset"),
            ("GET", "/agents/templates"),
            ("GET", f"/agents/{agent_id}/logs/x"),
            ("POST", f"/agents/{agent_id}/components/begin/debug"),
            ("POST", f"/agents/{agent_id}/webhook/test"),
            ("GET", f"/agents/{agent_id}/webhook/logs"),
            ("GET", f"{server.url}/v1/models"),
        ):
            assert (await server.client.request(method, path, headers=beta)).status_code == 401, path
        no_key = {"code": 102, "message": "Authentication error: API key is invalid! ", "data": None}
        other = await KeyRepository(server.app_state.database).create("other", 1, kind="beta")
        for path, method in ((f"/agentbots/{agent_id}/completions", "POST"), (f"/agentbots/{agent_id}/inputs", "GET")):
            for header in (server.key, "Bearer beta-forged", f"Bearer {'x' * 300}"):
                answer = await server.client.request(method, path, headers={"Authorization": header})
                assert (answer.status_code, answer.json()) == (200, no_key)
            empty = await server.client.request(method, path, headers={"Authorization": ""})
            assert empty.json() == {"code": 102, "message": "Authorization is not valid!", "data": None}
            theirs = await server.client.request(method, path, headers={"Authorization": other})
            assert theirs.json() == {"code": 102, "message": f"Can't find agent by ID: {agent_id}"}


async def test_an_error_of_the_engine_is_sent_as_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragflow_lg.base.errors import RunError
    from ragflow_lg.wire.projection import Projection

    feed = Projection.feed

    def fail(self: Projection, event: Any) -> Any:
        if "Node" in type(event).__name__:
            raise RunError("It broke.")
        return feed(self, event)

    async with embedded(tmp_path) as (server, beta):
        agent_id = await server.agent(FORM)
        monkeypatch.setattr(Projection, "feed", fail)
        answer = await server.client.post(f"/agentbots/{agent_id}/completions", json={"query": "Hi"}, headers=beta)
        assert frames(answer.text)[-2]["data"]["content"] == "Error 102: It broke."


async def test_pages_of_configured_origins_are_allowed(tmp_path: Path) -> None:
    async with embedded(tmp_path, allow_origins=("https://shop.example",)) as (server, _):
        question = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
        question["Access-Control-Request-Headers"] = "authorization,content-type"
        allowed = await server.client.options("/agentbots/x/completions", headers=question)
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://shop.example")
        refused = await server.client.options(
            "/agentbots/x/completions", headers={**question, "Origin": "https://evil.example"}
        )
        assert "access-control-allow-origin" not in refused.headers
