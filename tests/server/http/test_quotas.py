"""Quotas of tenants and of embedded pages: what is refused, in which shape, and where it is shown."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.agents import quotas as quotas_module
from ragflow_lg.server.database.usage_repository import UsageRepository
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.limits_section import TenantSection
from ragflow_lg.services.chat import Usage
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, MODEL, AppServer, says, start_app
from tests.server.waiting import wait_while

HOOKED = says("Hi", {"mode": "Webhook", "security": {"auth_type": "none", "allow_anonymous": True}})


async def shown(server: AppServer, key: str = "") -> dict[str, tuple[float | None, float]]:
    headers = {"Authorization": f"Bearer {key}"} if key else None
    answer = await server.client.get(f"{server.url}/native/v1/quotas", headers=headers)
    return {quota["name"]: (quota["limit"], quota["used"]) for quota in answer.json()["quotas"]}


def quotas(tokens_day: int, **tenants: Any) -> dict[str, Any]:
    return {"tenants": {"tenant": {"tokens_day": tokens_day}, **tenants}}


async def use_up(server: AppServer, tenant: str = "tenant") -> None:
    """Use one token, as a turn does."""
    await UsageRepository(server.app_state.database, tenant).add_usage(1, 0.0, server.app_state.now_ms())


async def test_every_surface_refuses_a_turn_with_the_name_of_the_quota(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(1), metrics_key="k" * 16) as server:
        agent = await server.agent(HOOKED)
        assert (await server.ask(agent))["code"] == 0
        await use_up(server)
        beta = await server.new_key(kind="beta")
        api, page = ({"Authorization": f"Bearer {key}"} for key in (server.key, beta))
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        requests: dict[str, tuple[str, dict[str, str], Any]] = {
            "native": (f"{server.url}/native/v1/agents/{agent}/runs", api, {"query": "hi"}),
            "page": (f"{server.url}/api/v1/agentbots/{agent}/completions", page, {"query": "hi"}),
            "openai": (f"{server.url}/api/v1/agents_openai/{agent}/chat/completions", api, chat),
            "openai 1.0": (
                f"{server.url}/api/v1/agents/chat/completions",
                {**api, "X-RAGFlow-Compat": "1.0"},
                {**chat, "agent_id": agent, "openai-compatible": True},
            ),
            "webhook": (f"{server.url}/api/v1/agents/{agent}/webhook", {}, {}),
            "ragflow": (f"{server.url}/api/v1/agents/{agent}/completions", api, {"question": "hi"}),
        }
        codes: dict[str, Any] = {}
        async with httpx.AsyncClient(timeout=20) as client:
            for name, (url, headers, body) in requests.items():
                answer = await client.post(url, headers=headers, json=body)
                assert (answer.status_code, "tokens_day of 1" in answer.text) == (429, True), (name, answer.text)
                assert 0 < int(answer.headers["retry-after"]) <= 24 * 3600
                reply = answer.json()
                codes[name] = reply.get("code") or reply["error"]["code"]
            problem = (await client.post(requests["native"][0], headers=api, json={"query": "hi"})).json()["error"]
            assert problem["details"] == {"quota": "tokens_day", "limit": 1}
            metrics = await client.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {'k' * 16}"})
        assert codes == {
            "native": "quota-exceeded",
            "page": 429,
            "openai": "insufficient_quota",
            "openai 1.0": "insufficient_quota",
            "webhook": 429,
            "ragflow": 429,
        }
        assert 'ragflow_lg_quota_refused_total{quota="tokens_day",tenant="tenant"} 7.0' in metrics.text
        assert (await shown(server))["tokens_day"] == (1, 1)


async def test_tokens_of_a_day_are_limited(tmp_path: Path) -> None:
    reply = Reply("Yes", usage=Usage(90, 10, 1), repeat=True)
    async with start_app(tmp_path, [reply], sections=quotas(150)) as server:
        agent = await server.agent(MODEL)
        for _ in range(2):
            assert (await server.ask(agent))["code"] == 0
        refused = await server.ask(agent)
        assert (refused["code"], "tokens_day" in refused["message"]) == (429, True)
        assert (await shown(server))["tokens_day"] == (150, 200)


async def test_a_tenant_does_not_use_the_quotas_of_others_and_may_have_its_own(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=quotas(1, shop={"tokens_day": 2})) as server:
        shop = await server.new_key("shop")
        ours = await server.agent(ECHO)
        headers = {"Authorization": f"Bearer {shop}"}
        made = await server.client.post("/agents", json={"title": "Theirs", "dsl": ECHO}, headers=headers)
        body = {"agent_id": made.json()["data"]["id"], "query": "hi"}
        codes: list[int] = []
        for _ in range(2):
            codes.append((await server.ask(ours))["code"])
            await use_up(server)
        for _ in range(3):
            answer = await server.client.post("/agents/chat/completions", json=body, headers=headers)
            codes.append(answer.json()["code"])
            await use_up(server, "shop")
        assert codes == [0, 429, 0, 0, 429]
        assert ((await shown(server))["tokens_day"], (await shown(server, shop))["tokens_day"]) == ((1, 2), (2, 3))


async def test_counts_hold_after_a_restart_and_other_sections_do_not_limit(tmp_path: Path) -> None:
    for code in (0, 429):
        async with start_app(tmp_path, sections=quotas(1)) as server:
            assert (await server.ask(await server.agent(ECHO, f"Agent {code}")))["code"] == code
            await use_up(server)
    settings = Settings(tenants={"*": TenantSection(tokens_day=5)})
    limits = {tenant: quotas_module.find_limits(settings, tenant).tokens_day for tenant in ("shop", "default")}
    assert limits == {"shop": 5, "default": quotas_module.TOKENS_DAY}


async def test_no_tenant_can_take_all_places(tmp_path: Path) -> None:
    section: dict[str, Any] = {"max_runs": 4, "max_waiting_runs": 0, "on_disconnect": "cancel"}
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)], **section) as server:
        agent = await server.agent(MODEL)
        shop = await server.new_key("shop")
        headers = {"Authorization": f"Bearer {shop}"}
        theirs = await server.client.post("/agents", json={"title": "Theirs", "dsl": ECHO}, headers=headers)
        tasks = [asyncio.create_task(server.ask(agent)) for _ in range(3)]
        await wait_while(lambda: server.turns._slots.in_use != 3)
        refused = await server.ask(agent)
        assert (refused["code"], "its quota runs of 3" in refused["message"]) == (429, True)
        body = {"agent_id": theirs.json()["data"]["id"], "query": "hi"}
        assert (await server.client.post("/agents/chat/completions", json=body, headers=headers)).json()["code"] == 0
        assert (await shown(server))["runs"] == (3, 3)
        for task in tasks:
            task.cancel()


async def test_a_page_has_small_quotas_of_its_own(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "PAGE_TOKENS_DAY", 150)
    server.model.replies += [Reply("Yes", usage=Usage(90, 10, 1), repeat=True)]
    agent = await server.agent(MODEL)
    keys = [await server.new_key(kind="beta") for _ in range(2)]
    statuses: list[int] = []
    for key in (keys[0], keys[0], keys[0], keys[1]):
        path, headers = f"/agentbots/{agent}/completions", {"Authorization": key}
        statuses.append((await server.client.post(path, json={"query": "hi"}, headers=headers)).status_code)
    assert (statuses, (await server.ask(agent))["code"]) == ([200, 200, 429, 200], 0)
    assert (await shown(server))["tokens_day"][1] == 400
