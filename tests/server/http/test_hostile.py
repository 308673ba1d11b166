"""Requests meant to make a server fail: each is refused in the shape of its path."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.edge import uvicorn_server
from ragflow_lg.server.http.shared.request_bodies import MAX_DEPTH, SIGN_IN_BYTES, TURN_BYTES
from ragflow_lg.server.observability.operations import SIGN_INS_PER_MINUTE
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, canvas, start_app
from tests.server.http.ragflow_ui.ui_server import start_ui
from tests.server.http.raw_requests import send_unfinished


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_oversized_and_nested_bodies_are_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        form = "&".join(f"a{number}=1" for number in range(1001))
        answer = await server.client.post(
            "/agents/chat/completions", content=form, headers={"content-type": "application/x-www-form-urlencoded"}
        )
        assert (answer.json()["code"], "1,000 fields" in answer.json()["message"]) == (101, True)
        for depth in (MAX_DEPTH + 1, 900):
            body = {"agent_id": agent, "query": {"x": nested(depth)}}
            assert (await server.client.post("/agents/chat/completions", json=body)).json()["code"] == 101
            url = f"{server.url}/native/v1/agents/{agent}/runs"
            refused = await server.client.post(url, json={"query": {"x": nested(depth)}})
            assert (refused.status_code, "deep" in refused.json()["error"]["message"]) == (400, True)
        assert (await server.client.get(f"/agents/{agent}/sessions")).json()["data"] == []
        body_with_charset = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\na\\ud800\r\n--b--\r\n'
        kind = {"content-type": "multipart/form-data; boundary=b; charset=undefined"}
        answer = await server.client.post(f"/agents/{agent}/upload", content=body_with_charset, headers=kind)
        assert "charset" in answer.json()["message"]


async def test_bodies_of_turns_and_sign_ins_are_smaller_than_others(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        agent = await server.agent(ECHO)
        beta = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        large, page = {"inputs": {"a": "x" * TURN_BYTES}}, {"Authorization": f"Bearer {beta}"}
        sent: dict[str, tuple[Any, dict[str, str]]] = {
            "/agents/chat/completions": (large, {}),
            f"/agentbots/{agent}/completions": (large, page),
            f"{server.url}/v1/chat/completions": (large, {}),
            f"{server.url}/native/v1/agents/{agent}/runs": (large, {}),
            f"{server.url}/api/v1/auth/login": ({"email": "x" * SIGN_IN_BYTES}, {}),
        }
        for path, (body, headers) in sent.items():
            answer = await server.client.post(path, json=body, headers=headers)
            assert (answer.status_code, "the limit for" in answer.text) == (413, True), path
        assert (await server.client.get(f"/agents/{agent}/sessions")).json()["data"] == []


async def test_an_unread_body_does_not_keep_its_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_server, "HEADER_S", 0.3)
    async with start_app(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x")
        async with asyncio.timeout(10):
            while await reader.read(1000):
                pass
        writer.close()


async def test_a_content_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        answer = await server.client.post(
            f"{server.url}/v1/chat/completions", json={"model": agent, "messages": [{"role": "user", "content": 5}]}
        )
        assert (answer.status_code, "content" in answer.json()["error"]["message"]) == (400, True)


async def test_deleting_an_agent_stops_its_runs(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(hangs=True)]) as server:
        agent = await server.agent(MODEL)
        session = await server.session(agent)
        asking = asyncio.create_task(server.ask(agent, "hi", session_id=session))
        while not server.model.requests:
            await asyncio.sleep(0.01)
        assert (await server.client.delete(f"/agents/{agent}")).json()["data"] is True
        await asyncio.wait_for(asking, 10)
        assert [record async for record in server.app_state.store.runs.sessions()] == []


TOKEN = {"auth_type": "token", "token": {"token_header": "X-Token", "token_value": "s" * 20}}
HOOK = canvas(("begin", "Begin", {"mode": "Webhook", "security": TOKEN}, []))
ANONYMOUS = {"/api/v1/auth/login", "/v1/user/login"}
"""What people without a key may send bodies to: `test_attempts_are_counted_before_the_body_is_read`."""
NO_BODY = {"GET", "HEAD", "OPTIONS"}
BODIES = {"length": "Content-Length: 100000", "chunks": "Transfer-Encoding: chunked"}
REFUSALS = re.compile(
    r"Unauthorized|unauthorized|invalid API key|not valid|API key is invalid|not authenticated|runs agents only"
)


def list_routes(server: AppServer, agent_id: str) -> list[tuple[str, str]]:
    """Return the methods and paths of all routes that may have a body."""
    app: Any = server.app
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    paths: set[tuple[str, str]] = {
        (method, route.path) for route in routes for method in (route.methods or set[str]()) - NO_BODY
    }
    filled = {(method, re.sub(r"\{(?!agent_id)[^}]*\}", "x", path)) for method, path in paths}
    return sorted((method, path.replace("{agent_id}", agent_id)) for method, path in filled)


@pytest.mark.parametrize(
    "headers",
    [(BODIES["length"],), (BODIES["chunks"], "Authorization: Bearer ragflow-wrong")],
    ids=["no key", "wrong key"],
)
async def test_a_key_is_checked_before_the_body_is_read(tmp_path: Path, headers: tuple[str, ...]) -> None:
    async with start_ui(tmp_path) as server:
        agent_id = await server.agent(HOOK)
        routes = list_routes(server, agent_id)
        assert len(routes) > 80
        for method, path in routes:
            if path in ANONYMOUS:
                continue
            response = await send_unfinished(server, method, path, *headers)
            assert REFUSALS.search(response.partition("\r\n\r\n")[2]), (method, path, response)


async def test_attempts_are_counted_before_the_body_is_read(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for _ in range(SIGN_INS_PER_MINUTE):
            refused = await server.client.post("/auth/login", content=b"[]", headers={"Authorization": ""})
            assert refused.json()["code"] == 101
        for framing in BODIES.values():
            response = await send_unfinished(server, "POST", "/api/v1/auth/login", framing)
            assert response.startswith("HTTP/1.1 429 ")
