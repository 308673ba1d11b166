"""Quotas of tenants and of embedded pages: what is refused, in which shape, and where it is shown."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from ragflow_lg.base.errors import BusyError
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.services.chat import Usage
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, canvas, start_app

HOOKED = canvas(
    ("begin", "Begin", {"mode": "Webhook", "security": {"auth_type": "none", "allow_anonymous": True}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Hi"]}, []),
)


async def shown(server: AppServer, key: str = "") -> dict[str, tuple[float | None, float]]:
    headers = {"Authorization": f"Bearer {key}"} if key else None
    answer = await server.client.get(f"{server.url}/native/v1/quotas", headers=headers)
    return {quota["name"]: (quota["limit"], quota["used"]) for quota in answer.json()["quotas"]}


def quotas(**values: Any) -> dict[str, Any]:
    return {"quotas": values}


async def test_every_surface_refuses_a_turn_with_the_name_of_the_quota(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(turns_day=1), metrics="key", metrics_key="k" * 16) as server:
        agent = await server.agent(HOOKED)
        assert (await server.ask(agent))["code"] == 0
        beta = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        api, page = ({"Authorization": f"Bearer {key}"} for key in (server.key, beta))
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        requests: dict[str, tuple[str, dict[str, str], Any]] = {
            "native": (f"{server.url}/native/v1/agents/{agent}/runs", api, {"query": "hi"}),
            "page": (f"{server.url}/api/v1/agentbots/{agent}/completions", page, {"query": "hi"}),
            "openai": (f"{server.url}/api/v1/agents_openai/{agent}/chat/completions", api, chat),
            "webhook": (f"{server.url}/api/v1/agents/{agent}/webhook", {}, {}),
            "ragflow": (f"{server.url}/api/v1/agents/{agent}/completions", api, {"question": "hi"}),
        }
        codes: dict[str, Any] = {}
        async with httpx.AsyncClient(timeout=20) as client:
            for name, (url, headers, body) in requests.items():
                answer = await client.post(url, headers=headers, json=body)
                assert (answer.status_code, "turns_day of 1" in answer.text) == (429, True), (name, answer.text)
                assert 0 < int(answer.headers["retry-after"]) <= 24 * 3600
                reply = answer.json()
                codes[name] = reply.get("code") or reply["error"]["code"]
            problem = (await client.post(requests["native"][0], headers=api, json={"query": "hi"})).json()["error"]
            assert problem["details"] == {"quota": "turns_day", "limit": 1}
            metrics = await client.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {'k' * 16}"})
        assert codes == {
            "native": "quota-exceeded",
            "page": 429,
            "openai": "insufficient_quota",
            "webhook": 429,
            "ragflow": 429,
        }
        assert 'ragflow_lg_quota_refused_total{quota="turns_day",tenant="tenant"} 6.0' in metrics.text
        assert (await shown(server))["turns_day"] == (1, 1)


async def test_requests_at_once_do_not_exceed_a_quota(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(agents=3, versions=50, sessions=5)) as server:
        bodies = [{"title": f"agent {number}", "dsl": ECHO} for number in range(12)]
        made = [each.json() for each in await asyncio.gather(*(server.client.post("/agents", json=b) for b in bodies))]
        assert [each["code"] for each in made].count(0) == 3
        (agent, *_) = [each["data"]["id"] for each in made if each["code"] == 0]
        turns = await asyncio.gather(*(server.ask(agent) for _ in range(12)))
        assert [turn["code"] for turn in turns].count(0) == 5
        assert (await shown(server))["sessions"] == (5, 5)


async def test_a_failed_request_leaves_its_room_to_others_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_app(tmp_path, sections=quotas(agents=3, sessions=2)) as server:
        agent = await server.agent(ECHO, "first")
        again = {"title": "first", "dsl": ECHO}
        refused = await asyncio.gather(*(server.client.post("/agents", json=again) for _ in range(6)))
        assert 0 not in [each.json()["code"] for each in refused]
        made = [await server.client.post("/agents", json={"title": title, "dsl": ECHO}) for title in ("a", "b", "c")]
        assert [each.json()["code"] for each in made] == [0, 0, 429]
        with monkeypatch.context() as failing:
            failing.setattr(Turns, "acquire_slot", AsyncMock(side_effect=BusyError("Later.", 1)))
            assert 0 not in [(await server.ask(agent))["code"] for _ in range(4)]
        assert [(await server.ask(agent))["code"] for _ in range(2)] == [0, 0]


async def test_a_refused_turn_leaves_no_session_behind(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(turns_day=1)) as server:
        agent = await server.agent(HOOKED)
        assert (await server.ask(agent))["code"] == 0
        assert (await server.ask(agent))["code"] == 429
        sessions = SessionRepository(server.app_state.database, "tenant")
        assert len(await sessions.ids(agent)) == 1


@pytest.mark.parametrize(
    ("section", "models", "quota"),
    [
        ({"tokens_day": 150}, {}, "tokens_day"),
        ({"cost_day": 1.5}, {"m": {"input_price": 1}}, "cost_day"),
    ],
)
async def test_tokens_and_costs_of_a_day_are_limited(
    tmp_path: Path, section: dict[str, Any], models: Any, quota: str
) -> None:
    reply = Reply("Yes", usage=Usage(90, 10, 1, 1.0), repeat=True)
    async with start_app(tmp_path, [reply], sections={**quotas(**section), "models": models}) as server:
        agent = await server.agent(MODEL)
        for _ in range(2):
            assert (await server.ask(agent))["code"] == 0
        refused = await server.ask(agent)
        assert (refused["code"], quota in refused["message"]) == (429, True)
        used = await shown(server)
        assert (used["tokens_day"][1], used["cost_day"][1], used["turns_day"][1]) == (200, 2.0, 2)


async def test_a_tenant_does_not_use_the_quotas_of_others_and_may_have_its_own(tmp_path: Path) -> None:
    sections = quotas(turns_day=1, tenants={"shop": {"turns_day": 2}})
    async with start_app(tmp_path, sections=sections) as server:
        shop = await KeyRepository(server.app_state.database).create("shop", 1)
        ours = await server.agent(ECHO)
        headers = {"Authorization": f"Bearer {shop}"}
        made = await server.client.post("/agents", json={"title": "Theirs", "dsl": ECHO}, headers=headers)
        body = {"agent_id": made.json()["data"]["id"], "query": "hi"}
        codes = [(await server.ask(ours))["code"] for _ in range(2)]
        for _ in range(3):
            codes.append(
                (await server.client.post("/agents/chat/completions", json=body, headers=headers)).json()["code"]
            )
        assert codes == [0, 429, 0, 0, 429]
        assert ((await shown(server))["turns_day"], (await shown(server, shop))["turns_day"]) == ((1, 1), (2, 2))


async def test_counts_hold_after_a_restart(tmp_path: Path) -> None:
    for code in (0, 429):
        async with start_app(tmp_path, sections=quotas(turns_day=1)) as server:
            agent = await server.agent(ECHO, f"Agent {code}")
            assert (await server.ask(agent))["code"] == code


async def test_what_is_stored_is_limited(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(agents=2, versions=4, sessions=2)) as server:
        first = await server.agent(ECHO)
        await server.agent(ECHO, "Second")
        third = await server.client.post("/agents", json={"title": "Third", "dsl": ECHO})
        assert (third.status_code, "agents of 2" in third.text) == (429, True)
        publish = f"{server.url}/native/v1/agents/{first}/versions"
        statuses = [(await server.client.post(publish, json={})).status_code for _ in range(3)]
        assert statuses == [201, 201, 429]
        changed = await server.client.put(f"/agents/{first}", json={"title": "New", "dsl": MODEL})
        assert "versions of 4" in changed.text
        assert [(await server.ask(first))["code"] for _ in range(3)] == [0, 0, 429]
        session = (await server.client.get(f"/agents/{first}/sessions")).json()["data"][0]["id"]
        await server.client.delete(f"/agents/{first}/sessions/{session}")
        assert [(await server.ask(first))["code"] for _ in range(2)] == [0, 429]
        assert (await shown(server))["sessions"] == (2, 2)


async def test_the_bytes_of_sessions_are_limited(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(checkpoint_bytes=200_000)) as server:
        agent = await server.agent(ECHO)
        assert (await server.ask(agent, "x" * 300_000))["code"] == 0
        used = (await shown(server))["checkpoint_bytes"][1]
        assert 300_000 < used < 2_000_000
        refused = await server.ask(agent)
        assert (refused["code"], "checkpoint_bytes" in refused["message"]) == (429, True)


async def test_no_tenant_can_take_all_places(tmp_path: Path) -> None:
    section: dict[str, Any] = {"max_runs": 4, "max_waiting_runs": 0}
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)], **section) as server:
        agent = await server.agent(MODEL)
        shop = await KeyRepository(server.app_state.database).create("shop", 1)
        headers = {"Authorization": f"Bearer {shop}"}
        theirs = await server.client.post("/agents", json={"title": "Theirs", "dsl": ECHO}, headers=headers)
        tasks = [asyncio.create_task(server.ask(agent)) for _ in range(3)]
        async with asyncio.timeout(10):
            while server.turns._slots.in_use != 3:
                await asyncio.sleep(0.005)
        refused = await server.ask(agent)
        assert (refused["code"], "its quota runs of 3" in refused["message"]) == (429, True)
        body = {"agent_id": theirs.json()["data"]["id"], "query": "hi"}
        answer = await server.client.post("/agents/chat/completions", json=body, headers=headers)
        assert answer.json()["code"] == 0
        assert (await shown(server))["runs"] == (3, 3)
        for task in tasks:
            task.cancel()


async def test_a_page_has_small_quotas_of_its_own(tmp_path: Path) -> None:
    reply = Reply("Yes", usage=Usage(90, 10, 1), repeat=True)
    async with start_app(tmp_path, [reply], sections=quotas(pages={"turns_day": 2, "tokens_day": 1000})) as server:
        agent = await server.agent(MODEL)
        keys = [await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta") for _ in range(2)]
        statuses: list[int] = []
        for key in (keys[0], keys[0], keys[0], keys[1]):
            path, headers = f"/agentbots/{agent}/completions", {"Authorization": key}
            answer = await server.client.post(path, json={"query": "hi"}, headers=headers)
            statuses.append(answer.status_code)
        assert statuses == [200, 200, 429, 200]
        assert (await server.ask(agent))["code"] == 0
        used = await shown(server)
        assert (used["turns_day"][1], used["tokens_day"][1]) == (4, 400)
