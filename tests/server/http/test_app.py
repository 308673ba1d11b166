from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from ragflow_lg.server.http.app import make_app
from tests.server.http.app_server import start_app


async def test_paths_that_are_not_there_are_told_in_the_envelope(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        answer = await server.client.get("/nowhere")
        assert (answer.status_code, answer.json()) == (
            404,
            {"code": 404, "message": "Not Found: /api/v1/nowhere", "data": None, "error": "Not Found"},
        )
        assert (await server.client.delete("/agents")).json()["code"] == 405
        assert (await server.client.get(f"{server.url}/v1/nowhere")).json()["error"]["type"] == "not_found_error"
        document = (await server.client.get(f"{server.url}/openapi.json")).json()
        assert "/api/v1/agents/{agent_id}/completions" in document["paths"]


async def test_answers_have_security_headers_and_browsers_only_the_origins_of_the_settings(tmp_path: Path) -> None:
    async with start_app(tmp_path, allow_origins=("https://shop.example",)) as server:
        answer = await server.client.get("/agents", headers={"Origin": "https://shop.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        other = await server.client.get("/agents", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


async def test_a_failure_of_the_server_shows_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("ragflow_lg.server.http.ragflow.agent_routes.agent_of", fail)
    async with start_app(tmp_path) as server:
        transport = httpx.ASGITransport(make_app(server.app_state), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answer = await client.delete("/api/v1/agents/x", headers={"Authorization": server.key})
    assert (answer.status_code, answer.json()["code"]) == (500, 100)
    assert "secret" not in answer.text
