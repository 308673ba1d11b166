from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.auth import authenticate_any, authenticate_beta
from ragflow_lg.server.observability.operations import Operations
from tests.server.http.app_server import ECHO, start_app

REFUSED: dict[str, Any] = {"code": 401, "message": "<Unauthorized '401: Unauthorized'>", "data": None}


async def test_a_key_is_accepted_with_or_without_its_scheme(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        cases = {f"bEaReR {server.key}": 200, server.key: 200, f"Basic {server.key}": 401, "Bearer": 401, "": 401}
        for header, status in cases.items():
            answer = await server.client.get("/agents", headers={"Authorization": header})
            assert answer.status_code == status, header
            if status == 401:
                assert answer.json() == REFUSED


ROUTES = [
    ("GET", "/agents"),
    ("POST", "/agents"),
    ("GET", "/agents/x"),
    ("PUT", "/agents/x"),
    ("DELETE", "/agents/x"),
    ("POST", "/agents/x/sessions"),
    ("GET", "/agents/x/sessions"),
    ("GET", "/agents/x/sessions/y"),
    ("DELETE", "/agents/x/sessions"),
    ("DELETE", "/agents/x/sessions/y"),
    ("POST", "/agents/chat/completions"),
    ("POST", "/agents/x/completions"),
    ("POST", "/tasks/x/cancel"),
    ("POST", "/agents/x/reset"),
    ("GET", "/agents/x/components/y/input-form"),
    ("POST", "/agents/x/components/y/debug"),
    ("GET", "/agents/x/logs/y"),
    ("GET", "/agents/templates"),
    ("GET", "/agents/prompts"),
    ("GET", "/agents/tags"),
    ("PUT", "/agents/x/tags"),
    ("POST", "/agents/x/upload"),
    ("GET", "/agents/download"),
    ("GET", "/agents/attachments/x/download"),
    ("GET", "/agents/attachments/x/preview"),
    ("GET", "/document/download/x"),
    ("POST", "/agents/x/webhook/test"),
    ("POST", "/webhook_test/x"),
    ("GET", "/agents/x/webhook/logs"),
    ("GET", "/webhook_trace/x"),
]


async def test_every_route_requires_a_key(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        for method, path in ROUTES:
            answer = await server.client.request(method, path, headers={"Authorization": "Bearer ragflow-forged"})
            assert (answer.status_code, answer.json()) == (401, REFUSED), path


async def test_revoked_and_beta_keys_are_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        keys = KeyRepository(server.app_state.database)
        beta = await keys.create("tenant", 1, kind="beta")
        await keys.revoke(server.key, 2)
        for key in (beta, server.key):
            assert (await server.client.get("/agents", headers={"Authorization": key})).status_code == 401


async def test_key_header_and_setting_select_the_response_shapes(tmp_path: Path) -> None:
    async with start_app(tmp_path, compat="0.24") as server:
        created = await server.client.post("/agents", json={"title": "A", "dsl": ECHO})
        assert created.json()["data"] is True
        current = await KeyRepository(server.app_state.database).create("tenant", 1, compat="current")
        cases: list[tuple[dict[str, str], type]] = [
            ({}, list),
            ({"Authorization": current}, dict),
            ({"X-RAGFlow-Compat": "current"}, dict),
            ({"Authorization": current, "X-RAGFlow-Compat": "0.24"}, list),
        ]
        for headers, shape in cases:
            assert isinstance((await server.client.get("/agents", headers=headers)).json()["data"], shape)


def request(app: Any, header: str) -> Request:
    headers = [(b"authorization", header.encode("latin-1"))] if header else []
    return Request(
        cast("Any", {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "app": app})
    )


async def test_each_kind_of_route_accepts_its_kinds_of_keys(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        operations = Operations(server.app_state.settings.server, ())
        app = SimpleNamespace(state=SimpleNamespace(app_state=server.app_state, operations=operations))
        beta = await KeyRepository(server.app_state.database).create("shop", 1, kind="beta")
        for header in (beta, f"bearer {beta}", f"Bearer  {beta} "):
            assert (await authenticate_beta(request(app, header))).tenant == "shop"
        assert (await authenticate_any(request(app, beta))).tenant == "shop"
        assert (await authenticate_any(request(app, server.key))).tenant == "tenant"
        for header, message in ((server.key, "Authentication error"), ("", "Authorization is not valid!")):
            with pytest.raises(RequestError, match=message) as refused:
                await authenticate_beta(request(app, header))
            assert refused.value.number == 102
        await KeyRepository(server.app_state.database).revoke(beta, 2)
        for header in ("", "Bearer", beta, f"Basic {beta}"):
            with pytest.raises(RequestError) as refused:
                await authenticate_any(request(app, header))
            assert refused.value.status == 401
