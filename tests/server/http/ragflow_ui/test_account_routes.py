from pathlib import Path
from typing import Any

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings.server_section import UserSection
from tests.server.http.app_server import ECHO
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
