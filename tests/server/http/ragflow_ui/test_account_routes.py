import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.operations import SIGN_INS_PER_MINUTE
from ragflow_lg.server.settings.server_section import UserSection
from tests.server.http.app_server import ECHO, AppServer
from tests.server.http.ragflow_ui.ui_server import start_ui

USERS = {
    "ada@example.org": UserSection.model_validate({"password": "correct horse", "tenant": "tenant", "name": "Ada"}),
    "eve@example.org": UserSection.model_validate({"password": "correct horse", "tenant": "other"}),
}


async def test_the_shell_gets_what_it_asks_for(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        anonymous = {"Authorization": ""}
        language = await server.client.get("/language", headers=anonymous)
        assert language.json()["data"] == {"language": "python"}
        config = (await server.client.get("/system/config", headers=anonymous)).json()["data"]
        assert config == {"registerEnabled": 0, "disablePasswordLogin": True}
        assert (await server.client.get("/system/version")).json()["data"].startswith("ragflow-lg ")
        person = (await server.client.get("/users/me")).json()["data"]
        tenant = (await server.client.get("/users/me/models")).json()["data"]
        assert person["id"] == tenant["tenant_id"] == "tenant"
        (shown,) = (await server.client.get("/tenants")).json()["data"]
        assert (shown["tenant_id"], shown["role"]) == ("tenant", "owner")


async def test_people_of_other_tenants_are_not_shown(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        people = (await server.client.get("/tenants/tenant/users")).json()["data"]
        assert [person["email"] for person in people] == ["ada@example.org"]
        assert (await server.client.get("/tenants/other/users")).json()["code"] == 109


async def test_a_page_opens_with_the_token_of_a_key_until_it_is_revoked(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        keys = KeyRepository(server.app_state.database)
        await keys.create("other", 1)
        agent_id = await server.agent(ECHO)
        (key,) = (await server.client.get("/system/tokens")).json()["data"]
        assert server.key.startswith(key["token"].removesuffix("…"))
        assert server.key not in str(key)
        headers = {"Authorization": f"Bearer {key['beta']}"}
        page = await server.client.get(f"/agentbots/{agent_id}/inputs", headers=headers)
        assert page.json()["data"]["title"] == "Helper"
        assert (await server.client.get("/agents", headers=headers)).json()["code"] == 401
        await keys.revoke(server.key, 5)
        page = await server.client.get(f"/agentbots/{agent_id}/inputs", headers=headers)
        assert page.json()["code"] == 102


async def test_every_route_needs_a_key(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for path in ("users/me", "tenants", "system/tokens", "models", "providers", "datasets", "mcp/servers", "files"):
            answer = await server.client.get(f"/{path}", headers={"Authorization": "Bearer ragflow-wrong"})
            assert answer.status_code == 401, path


async def test_the_default_models_of_the_settings_are_those_of_the_tenant(tmp_path: Path) -> None:
    url = "https://models.example/v1"
    sections: dict[str, Any] = {
        "default_model": "gpt-4.1@OpenAI",
        "providers": {"OpenAI": {"api_key": "sk-hidden", "base_url": url}},
        "embeddings": {"bge-m3@SILICONFLOW": {"base_url": url}},
    }
    async with start_ui(tmp_path, sections=sections) as server:
        models = (await server.client.get("/users/me/models")).json()["data"]
        ids = (models["llm_id"], models["embd_id"], models["rerank_id"])
        assert ids == ("gpt-4.1@OpenAI", "bge-m3@SILICONFLOW", "")


PEOPLE = {
    "ada@example.org": UserSection.model_validate({"password": "correct horse", "tenant": "tenant", "name": "Ada"})
}


async def sign_in(server: AppServer, **fields: Any) -> httpx.Response:
    return await server.client.post("/auth/login", json=fields, headers={"Authorization": ""})


async def list_titles(server: AppServer, token: str) -> Any:
    answer = await server.client.get("/agents", headers={"Authorization": token})
    body = answer.json()
    return [agent["title"] for agent in body["data"]["canvas"]] if body["code"] == 0 else body["code"]


async def test_an_api_key_signs_in_with_any_address(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        await server.agent(ECHO, "Mine")
        answer = await sign_in(server, email="", password=server.key)
        body, token = answer.json(), answer.headers["authorization"]
        assert (body["code"], body["message"]) == (0, "Welcome back!")
        assert body["data"]["access_token"] == token != server.key
        assert answer.headers["cache-control"] == "no-store"
        assert await list_titles(server, token) == await list_titles(server, f"Bearer {token}") == ["Mine"]
        await KeyRepository(server.app_state.database).revoke(server.key, 5)
        assert await list_titles(server, token) == 401


async def test_a_user_of_the_settings_signs_in(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=PEOPLE) as server:
        await server.agent(ECHO, "Mine")
        answer = await sign_in(server, email=" ADA@example.org ", password="correct horse")
        assert answer.json()["data"]["nickname"] == "Ada"
        token = answer.headers["authorization"]
        assert await list_titles(server, token) == ["Mine"]
        person = await server.client.get("/users/me", headers={"Authorization": token})
        assert person.json()["data"]["email"] == "ada@example.org"
        assert (await server.client.post("/auth/logout", headers={"Authorization": token})).json()["data"] is True


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"email": "ada@example.org", "password": "wrong"}, "do not match"),
        ({"email": "bob@example.org", "password": "correct horse"}, "do not match"),
        ({"email": "ada@example.org", "password": ""}, "do not match"),
        ({"email": "ada@example.org", "password": "A" * 344}, "use the button below"),
    ],
)
async def test_wrong_credentials_are_refused(tmp_path: Path, fields: dict[str, str], reason: str) -> None:
    async with start_ui(tmp_path, users=PEOPLE) as server:
        answer = await sign_in(server, **fields)
        assert answer.json()["code"] == 109
        assert reason in answer.json()["message"]
        assert "authorization" not in answer.headers


async def test_beta_keys_do_not_sign_in(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        beta = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        assert (await sign_in(server, password=beta)).json()["code"] == 109


async def test_the_page_runs_only_its_own_script(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=PEOPLE) as server:
        (channel,) = (await server.client.get("/auth/login/channels")).json()["data"]
        assert channel == {"channel": "key", "display_name": "an API key or a password", "icon": "sso"}
        page = await server.client.get(f"/auth/login/{channel['channel']}")
        (nonce,) = set(re.findall(r'nonce="([^"]+)"', page.text))
        assert f"script-src 'nonce-{nonce}'" in page.headers["content-security-policy"]
        assert "NONCE" not in page.text


async def test_passwords_cannot_be_guessed(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=PEOPLE) as server:
        codes = [
            (await sign_in(server, email="ada@example.org", password=f"guess {number}")).json()["code"]
            for number in range(SIGN_INS_PER_MINUTE + 5)
        ]
        assert codes[0] == 109
        assert codes[-1] == 429


async def test_the_front_end_of_0_25_0_signs_in_and_asks_for_its_account(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server, httpx.AsyncClient(base_url=f"{server.url}/v1") as browser:
        assert (await browser.get("/system/config")).json()["data"]["disablePasswordLogin"] is True
        (channel,) = (await browser.get("/user/login/channels")).json()["data"]
        page = await browser.get(f"/user/login/{channel['channel']}")
        assert page.headers["content-type"].startswith("text/html")
        signed_in = await browser.post("/user/login", json={"email": "", "password": server.key})
        browser.headers["Authorization"] = signed_in.headers["Authorization"]
        person = (await browser.get("/user/info")).json()["data"]
        tenant = (await browser.get("/user/tenant_info")).json()["data"]
        assert person["id"] == tenant["tenant_id"]
        (listed,) = (await browser.get("/tenant/list")).json()["data"]
        assert listed["tenant_id"] == person["id"]
        assert (await browser.get(f"/tenant/{person['id']}/user/list")).json() == {
            "code": 0,
            "message": "success",
            "data": [],
        }
        assert (await browser.get("/user/logout")).json()["data"] is True


async def test_only_people_who_have_signed_in_are_described(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server, httpx.AsyncClient(base_url=f"{server.url}/v1") as stranger:
        for path in ("/user/info", "/user/tenant_info", "/tenant/list"):
            assert (await stranger.get(path)).status_code == 401


async def test_lists_of_other_applications_are_empty(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        assert (await server.client.get("/chats")).json()["data"] == {"chats": [], "total": 0}
        assert (await server.client.get("/searches")).json()["data"] == {"search_apps": [], "total": 0}
