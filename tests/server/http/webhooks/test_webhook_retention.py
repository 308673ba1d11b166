from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.webhooks import webhook_retention as trimming
from ragflow_lg.server.http.webhooks.webhook_retention import trim_sessions
from tests.server.http.app_server import AppServer, canvas, start_app

HOOK = canvas(
    ("begin", "Begin", {"mode": "Webhook", "security": {"allow_anonymous": True}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Hi"]}, []),
)


async def listed(server: AppServer, agent_id: str) -> list[Any]:
    return (await server.client.get(f"/agents/{agent_id}/sessions")).json()["data"]


async def test_the_oldest_sessions_of_a_webhook_go_and_those_of_people_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "TRIM_INTERVAL", 3)
    async with start_app(tmp_path, webhook_sessions=2) as server:
        agent_id = await server.agent(HOOK)
        mine = await server.session(agent_id, name="webhook")
        for _ in range(6):
            assert (await server.client.post(f"/agents/{agent_id}/webhook", json={})).status_code == 200
        async with asyncio.timeout(10):
            while len(rows := await listed(server, agent_id)) > 3 or server.app_state.run_manager.running_count:
                await asyncio.sleep(0.01)
        assert {row["source"] for row in rows if row["id"] != mine} == {"webhook"}
        assert mine in {row["id"] for row in rows}


async def test_what_is_being_run_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "TRIM_INTERVAL", 1)
    async with start_app(tmp_path, webhook_sessions=0) as server:
        agent_id = await server.agent(HOOK)
        for _ in range(3):
            await server.client.post(f"/agents/{agent_id}/webhook", json={})
        async with asyncio.timeout(10):
            while server.app_state.run_manager.running_count:
                await asyncio.sleep(0.01)
        oldest = (await listed(server, agent_id))[-1]["id"]
        agent = await AgentRepository(server.app_state.database, "tenant").get(agent_id)
        assert agent is not None
        await trim_sessions(server.app_state, agent)
        assert len(await listed(server, agent_id)) == 3
        section = server.app_state.settings.server.model_copy(update={"webhook_sessions": 1})
        app_state = replace(server.app_state, settings=server.app_state.settings.model_copy(update={"server": section}))
        held = await server.app_state.store.leases.acquire(oldest, lambda: None)
        await trim_sessions(app_state, agent)
        assert oldest in {row["id"] for row in await listed(server, agent_id)}
        assert len(await listed(server, agent_id)) == 2
        await held.release()
