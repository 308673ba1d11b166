import re
from pathlib import Path
from typing import Any

import httpx

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.operations import SIGN_INS_PER_MINUTE
from ragflow_lg.server.settings.server_section import UserSection
from tests.server.http.app_server import ECHO, AppServer
from tests.server.http.ragflow_ui.ui_server import start_ui

USERS = {
    "ada@example.org": UserSection.model_validate({"password": "correct horse", "tenant": "tenant"}),
    "eve@example.org": UserSection.model_validate({"password": "correct horse", "tenant": "other"}),
}
MODELS: dict[str, Any] = {
    "default_model": "gpt-4.1@OpenAI",
    "providers": {"OpenAI": {"api_key": "sk-hidden", "base_url": "https://models.example/v1"}},
    "embeddings": {"bge-m3@SILICONFLOW": {"base_url": "https://models.example/v1"}},
}


async def test_the_shell_gets_what_it_asks_for(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS, sections=MODELS) as server:
        anonymous = {"Authorization": ""}
        assert (await server.get("/language", headers=anonymous))["data"] == {"language": "python"}
        config = (await server.get("/system/config", headers=anonymous))["data"]
        assert config == {"registerEnabled": 0, "disablePasswordLogin": True}
        assert (await server.get("/system/version"))["data"].startswith("ragflow-lg ")
        tenant = (await server.get("/users/me/models"))["data"]
        assert (await server.get("/users/me"))["data"]["id"] == tenant["tenant_id"] == "tenant"
        ids = (tenant["llm_id"], tenant["embd_id"], tenant["rerank_id"])
        assert ids == ("gpt-4.1@OpenAI", "bge-m3@SILICONFLOW", "")
        (shown,) = (await server.get("/tenants"))["data"]
        assert (shown["tenant_id"], shown["role"]) == ("tenant", "owner")
        people = (await server.get("/tenants/tenant/users"))["data"]
        assert [person["email"] for person in people] == ["ada@example.org"]
        assert (await server.get("/tenants/other/users"))["code"] == 109
        assert (await server.get("/chats"))["data"] == {"chats": [], "total": 0}
        assert (await server.get("/searches"))["data"] == {"search_apps": [], "total": 0}


async def test_a_page_opens_with_the_token_of_a_key_until_it_is_revoked(ui: AppServer) -> None:
    await ui.new_key("other")
    inputs = f"/agentbots/{await ui.agent(ECHO)}/inputs"
    (key,) = (await ui.get("/system/tokens"))["data"]
    assert ui.key.startswith(key["token"].removesuffix("…"))
    assert ui.key not in str(key)
    headers = {"Authorization": f"Bearer {key['beta']}"}
    assert (await ui.get(inputs, headers=headers))["data"]["title"] == "Helper"
    assert (await ui.get("/agents", headers=headers))["code"] == 401
    await KeyRepository(ui.app_state.database).revoke(ui.key, 5)
    assert (await ui.get(inputs, headers=headers))["code"] == 102


async def sign_in(server: AppServer, **fields: Any) -> httpx.Response:
    return await server.client.post("/auth/login", json=fields, headers={"Authorization": ""})


async def list_titles(server: AppServer, token: str) -> Any:
    body = await server.get("/agents", headers={"Authorization": token})
    return [agent["title"] for agent in body["data"]["canvas"]] if body["code"] == 0 else body["code"]


async def test_keys_and_users_sign_in(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        await server.agent(ECHO, "Mine")
        answer = await sign_in(server, email="", password=server.key)
        body, token = answer.json(), answer.headers["authorization"]
        assert (body["code"], body["message"]) == (0, "Welcome back!")
        assert body["data"]["access_token"] == token != server.key
        assert answer.headers["cache-control"] == "no-store"
        assert await list_titles(server, token) == await list_titles(server, f"Bearer {token}") == ["Mine"]
        answer = await sign_in(server, email=" ADA@example.org ", password="correct horse")
        ada = {"Authorization": answer.headers["authorization"]}
        assert (answer.json()["data"]["nickname"], await list_titles(server, ada["Authorization"])) == (
            "ada@example.org",
            ["Mine"],
        )
        assert (await server.get("/users/me", headers=ada))["data"]["email"] == "ada@example.org"
        assert (await server.post("/auth/logout", headers=ada))["data"] is True
        await KeyRepository(server.app_state.database).revoke(server.key, 5)
        assert await list_titles(server, token) == 401


async def test_wrong_credentials_are_refused(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        for email, password, reason in (
            ("ada@example.org", "wrong", "do not match"),
            ("bob@example.org", "correct horse", "do not match"),
            ("ada@example.org", "", "do not match"),
            ("ada@example.org", "A" * 344, "use the button below"),
            ("", await server.new_key(kind="beta"), ""),
        ):
            answer = await sign_in(server, email=email, password=password)
            assert (answer.json()["code"], reason in answer.json()["message"]) == (109, True), (email, password)
            assert "authorization" not in answer.headers
        guesses = [(await sign_in(server, password=f"guess {number}")).json() for number in range(SIGN_INS_PER_MINUTE)]
        assert (guesses[0]["code"], guesses[-1]["code"]) == (109, 429)


async def test_the_page_runs_only_its_own_script(ui: AppServer) -> None:
    (channel,) = (await ui.get("/auth/login/channels"))["data"]
    assert channel == {"channel": "key", "display_name": "an API key", "icon": "sso"}
    page = await ui.client.get(f"/auth/login/{channel['channel']}")
    (nonce,) = set(re.findall(r'nonce="([^"]+)"', page.text))
    assert f"script-src 'nonce-{nonce}'" in page.headers["content-security-policy"]
    assert "NONCE" not in page.text


async def test_the_front_end_of_0_25_0_signs_in_and_asks_for_its_account(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server, httpx.AsyncClient(base_url=f"{server.url}/v1") as browser:

        async def get(path: str) -> Any:
            return (await browser.get(path)).json()["data"]

        assert (await get("/system/config"))["disablePasswordLogin"] is True
        (channel,) = await get("/user/login/channels")
        assert (await browser.get(f"/user/login/{channel['channel']}")).headers["content-type"].startswith("text/html")
        signed_in = await browser.post("/user/login", json={"email": "", "password": server.key})
        browser.headers["Authorization"] = signed_in.headers["Authorization"]
        (listed,), person = await get("/tenant/list"), (await get("/user/info"))["id"]
        assert listed["tenant_id"] == (await get("/user/tenant_info"))["tenant_id"] == person
        assert await get(f"/tenant/{person}/user/list") == []
        assert await get("/user/logout") is True
