import logging
from pathlib import Path

import httpx
import pytest

from ragflow_lg.server.http.app import make_app
from tests.server.http.app_server import AppServer, start_app


async def test_unknown_paths_are_refused_in_the_envelope(server: AppServer) -> None:
    answer = await server.client.get("/nowhere")
    assert (answer.status_code, answer.json()) == (
        404,
        {"code": 404, "message": "Not Found: /api/v1/nowhere", "data": None, "error": "Not Found"},
    )
    assert (await server.delete("/agents"))["code"] == 405
    for path in ("/v1/nowhere", "/native/v1/nowhere"):
        missing = await server.client.get(f"{server.url}{path}")
        assert missing.status_code == 404
        assert missing.json()["error"]["message"] == f"No route for GET {path}. /openapi.json lists all routes."
    assert (await server.get(f"{server.url}/v1/nowhere"))["error"]["type"] == "not_found_error"
    assert "/api/v1/agents/{agent_id}/completions" in (await server.get(f"{server.url}/openapi.json"))["paths"]


async def test_answers_have_security_headers_and_cors_headers_for_configured_origins_only(tmp_path: Path) -> None:
    async with start_app(tmp_path, allow_origins=("https://shop.example",)) as server:
        answer = await server.client.get("/agents", headers={"Origin": "https://shop.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        other = await server.client.get("/agents", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


async def test_an_unexpected_error_is_logged_and_not_shown(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a secret")

    app = make_app(server.app_state)
    app.add_api_route("/api/v1/broken", fail)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/api/v1/broken", headers={"Authorization": server.key})
    assert (answer.status_code, answer.json()["code"]) == (500, 100)
    assert answer.headers["x-request-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "ZeroDivisionError: a secret" in caplog.text
    assert "secret" not in answer.text
