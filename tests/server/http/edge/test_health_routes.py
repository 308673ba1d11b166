import asyncio
import sqlite3
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from ragflow_lg.base.errors import CheckpointError, DatabaseError, StreamError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.sql import sqlite_file
from ragflow_lg.server.database import database
from ragflow_lg.server.http.edge import health_routes
from ragflow_lg.server.http.edge.health_routes import Readiness, build_metrics_app
from ragflow_lg.server.observability.operations import Metrics
from ragflow_lg.server.observability.run_slots import RunSlots
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, start_app
from tests.server.waiting import wait_while

READY = {"database": "ok", "checkpoints": "ok", "journal": "ok"}


async def test_a_working_server_is_alive_and_ready(server: AppServer) -> None:
    client = server.stranger()
    assert (await client.get("/health")).json() == {"status": "ok"}
    greeting = {"name": "ragflow-lg", "version": version("ragflow-lg"), "openapi": "/openapi.json", "health": "/health"}
    assert (await client.get("/")).json() == greeting
    assert (await client.get(greeting["openapi"])).json()["info"]["version"] == greeting["version"]
    ready = await client.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "parts": READY})


async def test_a_failing_part_is_named_without_its_error(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_routes, "FRESH_S", 0.0)
    monkeypatch.setattr(server.app.state.readiness, "_expires_at", 0.0)
    client = server.stranger()
    monkeypatch.setattr(server.app_state.database, "execute", AsyncMock(side_effect=DatabaseError("password geheim")))
    ready = await client.get("/ready")
    assert (ready.status_code, ready.json()) == (503, {"status": "failing", "parts": {**READY, "database": "failed"}})
    assert (await client.get("/health")).status_code == 200


async def test_a_server_with_a_queue_says_whether_there_are_workers(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        for has_worker, status, state in (
            (True, 200, "ok"),
            (False, 200, "none"),
            (StreamError("geheim"), 503, "failed"),
        ):
            queue: Any = SimpleNamespace(has_worker=AsyncMock(side_effect=[has_worker]))
            server.app.state.readiness = Readiness(replace(server.app_state, queue=queue))
            ready = await server.stranger().get("/ready")
            assert (ready.status_code, ready.json()["parts"]) == (status, {**READY, "workers": state})


async def test_a_draining_server_is_not_ready(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["a"], hangs=True)]) as server:
        playing = asyncio.create_task(server.ask(await server.agent(MODEL)))
        await wait_while(lambda: not server.running)
        draining = asyncio.create_task(server.app_state.run_manager.drain(0.2))
        await asyncio.sleep(0)
        ready = await server.client.get(f"{server.url}/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "stopping")
        await asyncio.gather(draining, playing)


async def test_a_server_without_the_code_of_turns_is_not_ready(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.server.http.edge.health_routes.is_loading", lambda: True)
    ready = await server.client.get(f"{server.url}/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, "starting")


async def test_metrics_require_a_configured_key(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        off = await server.client.get(f"{server.url}/metrics")
        assert (off.status_code, "Metrics are off: set metrics_key" in off.text) == (404, True)
    key = "collector-0123456789"
    async with start_app(tmp_path, metrics_key=SecretStr(key)) as server:
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


async def test_concurrent_probes_share_one_check(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Readiness(server.app_state)
    head = AsyncMock(side_effect=StreamError("Redis at geheim is gone."))
    monkeypatch.setattr(server.app_state.run_manager.journal, "head", head)
    monkeypatch.setattr(server.app_state.store.leases, "acquire", AsyncMock(side_effect=CheckpointError("geheim")))
    states = await asyncio.gather(*(checks.check() for _ in range(20)))
    assert (states, head.await_count) == ([{**READY, "checkpoints": "failed", "journal": "failed"}] * 20, 1)


async def test_checked_stores_do_not_grow_and_locked_ones_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_routes, "FRESH_S", 0.0)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 500)
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.5)
    paths = tmp_path / "server.db", tmp_path / "sessions.db"
    async with start_app(tmp_path) as server, open_store(f"sqlite:///{paths[1]}") as store:
        checks = Readiness(replace(server.app_state, store=store))
        raw = [sqlite3.connect(path, isolation_level=None) for path in paths]
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        counts: list[Any] = []
        for _ in range(5):
            assert await checks.check() == READY
            counts.append(
                [
                    db.execute(f"SELECT count(*) FROM {name}").fetchone()
                    for db in raw
                    for (name,) in db.execute(tables).fetchall()
                ]
            )
        assert counts[1:] == counts[:1] * 4
        monkeypatch.setattr(health_routes, "CHECK_S", 0.05)
        for db in raw:
            db.execute("BEGIN IMMEDIATE")
        assert await checks.check() == {**READY, "database": "timed out", "checkpoints": "timed out"}
        for db in raw:
            db.close()
