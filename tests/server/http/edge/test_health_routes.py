import asyncio
from importlib.metadata import version
from pathlib import Path
from unittest.mock import AsyncMock

import httpx
import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.http.edge.health_routes import build_metrics_app
from ragflow_lg.server.observability.metrics import Metrics
from ragflow_lg.server.observability.run_slots import RunSlots
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, start_app


async def test_a_working_server_is_alive_and_ready(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/health")).json() == {"status": "ok"}
        greeting = (await client.get("/")).json()
        assert greeting == {
            "name": "ragflow-lg",
            "version": version("ragflow-lg"),
            "openapi": "/openapi.json",
            "health": "/health",
        }
        assert (await client.get(greeting["openapi"])).json()["info"]["version"] == greeting["version"]
        ready = await client.get("/ready")
        assert ready.status_code == 200
        assert ready.json()["status"] == "ready"
        assert {"database": "ok", "checkpoints": "ok"}.items() <= ready.json()["parts"].items()


async def test_a_failing_part_is_named_without_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path) as server, httpx.AsyncClient(base_url=server.url) as client:
        monkeypatch.setattr(server.app_state.database, "write", AsyncMock(side_effect=DatabaseError("password geheim")))
        ready = await client.get("/ready")
        parts = {"database": "failed", "checkpoints": "ok", "journal": "ok"}
        assert (ready.status_code, ready.json()) == (503, {"status": "failing", "parts": parts})
        assert (await client.get("/health")).status_code == 200


async def test_a_draining_server_is_not_ready(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["a"], hangs=True)]) as server:
        playing = asyncio.create_task(server.ask(await server.agent(MODEL)))
        async with asyncio.timeout(10):
            while not server.app_state.run_manager.running_count:
                await asyncio.sleep(0.01)
        draining = asyncio.create_task(server.app_state.run_manager.drain(0.2))
        await asyncio.sleep(0)
        ready = await server.client.get(f"{server.url}/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "stopping")
        await asyncio.gather(draining, playing)


async def test_metrics_require_a_configured_key(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        assert (await server.client.get(f"{server.url}/metrics")).status_code == 404
    key = "collector-0123456789"
    async with start_app(tmp_path, metrics="key", metrics_key=SecretStr(key)) as server:
        agent = await server.agent(ECHO, title="Geheim")
        await server.ask(agent)
        await server.stream(agent)
        url = f"{server.url}/metrics"
        assert (await server.client.get(url)).status_code == 401
        answer = await server.client.get(url, headers={"Authorization": f"Bearer {key}"})
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'ragflow_lg_runs_total{status="succeeded"} 2.0' in answer.text
        assert 'route="/api/v1/agents/chat/completions",status="200"} 2.0' in answer.text
        assert "ragflow_lg_first_event_seconds_count 1.0" in answer.text
        assert "ragflow_lg_open_streams 0.0" in answer.text
        assert 'ragflow_lg_refused_total{reason="key"}' not in answer.text
        for secret in (agent, "Geheim", 'tenant"', server.key[:12]):
            assert secret not in answer.text


async def test_the_metrics_application_serves_only_metrics() -> None:
    transport = httpx.ASGITransport(build_metrics_app(Metrics(RunSlots(1))))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert "ragflow_lg_runs_running 0.0" in (await client.get("/metrics")).text
        assert (await client.get("/api/v1/agents")).status_code == 404
