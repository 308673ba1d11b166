"""Requests without a valid key are refused before their bodies are read, on every route."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ragflow_lg.server.observability.operations import SIGN_INS_PER_MINUTE
from tests.server.http.app_server import AppServer, canvas
from tests.server.http.ragflow_ui.ui_server import start_ui
from tests.server.http.raw_requests import send_unfinished

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
