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
    async with start_ui(tmp_path, users=USERS) as server:
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
    async with start_ui(tmp_path, users=USERS) as server:
        answer = await sign_in(server, **fields)
        assert answer.json()["code"] == 109
        assert reason in answer.json()["message"]
        assert "authorization" not in answer.headers


async def test_beta_keys_do_not_sign_in(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        beta = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        assert (await sign_in(server, password=beta)).json()["code"] == 109


async def test_the_page_runs_only_its_own_script(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        (channel,) = (await server.client.get("/auth/login/channels")).json()["data"]
        assert channel == {"channel": "key", "display_name": "an API key or a password", "icon": "sso"}
        page = await server.client.get(f"/auth/login/{channel['channel']}")
        (nonce,) = set(re.findall(r'nonce="([^"]+)"', page.text))
        assert f"script-src 'nonce-{nonce}'" in page.headers["content-security-policy"]
        assert "NONCE" not in page.text


async def test_passwords_cannot_be_guessed(tmp_path: Path) -> None:
    async with start_ui(tmp_path, users=USERS) as server:
        codes = [
            (await sign_in(server, email="ada@example.org", password=f"guess {number}")).json()["code"]
            for number in range(SIGN_INS_PER_MINUTE + 5)
        ]
        assert codes[0] == 109
        assert codes[-1] == 429
