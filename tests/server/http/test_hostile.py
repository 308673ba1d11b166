"""Requests meant to make a server fail: each is refused in the shape of its path."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ragflow_lg.server.http.edge import uvicorn_server
from ragflow_lg.server.http.shared.request_bodies import MAX_DEPTH, SIGN_IN_BYTES, TURN_BYTES
from ragflow_lg.server.observability.operations import SIGN_INS_PER_MINUTE
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, canvas, start_app
from tests.server.http.ragflow_ui.ui_server import start_ui
from tests.server.http.raw_requests import send_unfinished
from tests.server.waiting import wait_while


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_oversized_and_nested_bodies_are_refused(server: AppServer) -> None:
    agent = await server.agent(ECHO)
    form = "&".join(f"a{number}=1" for number in range(1001))
    answer = await server.client.post(
        "/agents/chat/completions", content=form, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert (answer.json()["code"], "1,000 fields" in answer.json()["message"]) == (101, True)
    for depth in (MAX_DEPTH + 1, 900):
        body = {"agent_id": agent, "query": {"x": nested(depth)}}
        assert (await server.post("/agents/chat/completions", body))["code"] == 101
        url = f"{server.url}/native/v1/agents/{agent}/runs"
        refused = await server.client.post(url, json={"query": {"x": nested(depth)}})
        assert (refused.status_code, "deep" in refused.json()["error"]["message"]) == (400, True)
    assert (await server.get(f"/agents/{agent}/sessions"))["data"] == []
    body_with_charset = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\na\\ud800\r\n--b--\r\n'
    kind = {"content-type": "multipart/form-data; boundary=b; charset=undefined"}
    answer = await server.client.post(f"/agents/{agent}/upload", content=body_with_charset, headers=kind)
    assert "charset" in answer.json()["message"]


async def test_bodies_of_turns_and_sign_ins_are_smaller_than_others(ui: AppServer) -> None:
    agent = await ui.agent(ECHO)
    beta = await ui.new_key(kind="beta")
    large, page = {"inputs": {"a": "x" * TURN_BYTES}}, {"Authorization": f"Bearer {beta}"}
    sent: dict[str, tuple[Any, dict[str, str]]] = {
        "/agents/chat/completions": (large, {}),
        f"/agentbots/{agent}/completions": (large, page),
        f"{ui.url}/v1/chat/completions": (large, {}),
        f"{ui.url}/v1/responses": ({"model": agent, "input": "x" * (TURN_BYTES + 1)}, {}),
        f"{ui.url}/native/v1/agents/{agent}/runs": (large, {}),
        f"{ui.url}/api/v1/auth/login": ({"email": "x" * SIGN_IN_BYTES}, {}),
    }
    for path, (body, headers) in sent.items():
        answer = await ui.client.post(path, json=body, headers=headers)
        assert (answer.status_code, "the limit for" in answer.text) == (413, True), path
    assert (await ui.get(f"/agents/{agent}/sessions"))["data"] == []


async def test_an_unread_body_keeps_no_connection_open(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "HEADER_S", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"x")
    async with asyncio.timeout(10):
        while await reader.read(1000):
            pass
    writer.close()


async def test_deleting_an_agent_stops_its_runs(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(hangs=True)]) as server:
        agent = await server.agent(MODEL)
        asking = asyncio.create_task(server.ask(agent, "hi", session_id=await server.session(agent)))
        await wait_while(lambda: not server.model.requests)
        assert (await server.delete(f"/agents/{agent}"))["data"] is True
        await asyncio.wait_for(asking, 10)
        assert [record async for record in server.app_state.store.runs.sessions()] == []


LENGTH, CHUNKS = "Content-Length: 100000", "Transfer-Encoding: chunked"
SIGN_IN = ("/auth/login", "/auth/login/channels", "/auth/login/key", "/system/config")
SYSTEM = ("/language", "/system/healthz", "/system/ping", "/system/version")
OLDER = ("/user/login", "/user/login/channels", "/user/login/key", "/system/config", "/system/healthz")
ANONYMOUS = {
    *("/", "/health", "/ready", "/metrics", "/native/v1/shared/{token}"),
    *(f"/api/v1{p}" for p in SIGN_IN + SYSTEM),
    *(f"/v1{p}" for p in OLDER),
}
"""What people without a key may ask for: `test_attempts_are_counted_before_the_body_is_read`."""
REFUSALS = re.compile(
    r"Unauthorized|unauthorized|invalid API key|not valid|API key is invalid|not authenticated|runs agents only"
)


def list_routes(server: AppServer, agent_id: str) -> list[tuple[str, str]]:
    """Return the methods and paths of all routes that need a key."""
    app: Any = server.app
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    paths = {(method, route.path) for route in routes for method in (route.methods or set[str]()) - {"HEAD", "OPTIONS"}}
    filled = {(method, re.sub(r"\{(?!agent_id)[^}]*\}", "x", path)) for method, path in paths if path not in ANONYMOUS}
    return sorted((method, path.replace("{agent_id}", agent_id)) for method, path in filled)


async def test_attempts_are_counted_before_the_body_is_read(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as ui:
        for _ in range(SIGN_INS_PER_MINUTE):
            assert (await ui.post("/auth/login", [], headers={"Authorization": ""}))["code"] == 101
        for framing in (LENGTH, CHUNKS):
            assert (await send_unfinished(ui, "POST", "/api/v1/auth/login", framing)).startswith("HTTP/1.1 429 ")


async def test_every_route_checks_the_key_before_it_reads_the_body(ui: AppServer) -> None:
    token = {"auth_type": "token", "token": {"token_header": "X-Token", "token_value": "s" * 20}}
    routes = list_routes(ui, await ui.agent(canvas(("begin", "Begin", {"mode": "Webhook", "security": token}, []))))
    assert len(routes) > 150
    for headers in ((LENGTH,), (CHUNKS, "Authorization: Bearer ragflow-wrong")):
        answers = {route: await send_unfinished(ui, *route, *headers) for route in routes}
        offenders = [route for route, text in answers.items() if not REFUSALS.search(text.partition("\r\n\r\n")[2])]
        assert not offenders, offenders
