from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.database.key_repository import KeyRepository
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.server.http.native.native_client import native, problem

DAY_S = 86_400


async def test_a_key_of_pages_is_created_listed_and_revoked(server: AppServer) -> None:
    client = native(server)
    one, two = await server.agent(ECHO, "One"), await server.agent(ECHO, "Two")
    made = await client.post("/keys", json={"agents": [one, one], "name": "window", "expires_days": 90})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    key: dict[str, Any] = made.json()
    assert (key["agents"], key["name"], key["key"].startswith(key["prefix"])) == ([one], "window", True)
    assert key["expires_at"] - key["created_at"] == 90 * DAY_S
    page = {"Authorization": f"Bearer {key['key']}"}
    assert [(await server.get(f"/agentbots/{id_}/inputs", headers=page))["code"] for id_ in (one, two)] == [0, 102]
    (listed,) = (await client.get("/keys")).json()["keys"]
    assert listed == {name: value for name, value in key.items() if name != "key"}
    assert problem(await client.get("/keys", headers=page)) == (401, "unauthorized")
    assert (await client.delete(f"/keys/{key['id']}")).status_code == 204
    assert (await client.get("/keys")).json() == {"keys": []}
    assert (await server.get(f"/agentbots/{one}/inputs", headers=page))["code"] == 102
    assert problem(await client.delete(f"/keys/{key['id']}")) == (404, "not-found")


async def test_all_agents_are_allowed_only_on_request(server: AppServer) -> None:
    client = native(server)
    agent_id = await server.agent(ECHO)
    bodies: list[dict[str, Any]] = [
        {},
        {"agents": []},
        {"agents": [agent_id], "all_agents": True},
        {"agents": [agent_id], "expires_days": 0},
        {"agents": ["x"] * 31},
    ]
    for body in bodies:
        assert problem(await client.post("/keys", json=body)) == (422, "invalid")
    assert problem(await client.post("/keys", json={"agents": ["0" * 32]})) == (404, "not-found")
    made = (await client.post("/keys", json={"all_agents": True})).json()
    assert (made["agents"], made["expires_at"]) == ([], None)


@pytest.mark.parametrize(("tenant", "kind"), [("tenant", "api"), ("stranger", "beta")])
async def test_other_keys_cannot_be_revoked_or_seen(server: AppServer, tenant: str, kind: str) -> None:
    client = native(server)
    keys = KeyRepository(server.app_state.database)
    key = await keys.create(tenant, 1, kind=kind, name="other")
    row = next(row for row in await keys.list() if row.name == "other")
    assert (await client.get("/keys")).json() == {"keys": []}
    assert problem(await client.delete(f"/keys/{row.id}")) == (404, "not-found")
    assert await keys.find(key, 2, kind) is not None


async def upload(server: AppServer, agent_id: str, name: str, key: str = "") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key or server.key}"}
    answer = await server.post(f"/agents/{agent_id}/upload", files={"file": (name, b"x" * 10)}, headers=headers)
    assert answer["code"] == 0, answer
    return answer["data"]


def authorize(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def names(client: httpx.AsyncClient, key: str = "", **query: Any) -> list[str]:
    headers = authorize(key) if key else {}
    return [file["name"] for file in (await client.get("/files", params=query, headers=headers)).json()["files"]]


async def test_files_are_listed_page_by_page_and_deleted(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        one, two = await server.agent(ECHO, "One"), await server.agent(ECHO, "Two")
        files = [await upload(server, agent, name) for agent, name in ((one, "a"), (one, "b"), (two, "c"))]
        whole = (await client.get("/files")).json()
        assert (whole["total"], whole["total_bytes"]) == (3, 30)
        assert {(file["name"], file["size_bytes"], file["agent_id"]) for file in whole["files"]} == {
            ("a", 10, one),
            ("b", 10, one),
            ("c", 10, two),
        }
        assert await names(client, agent_id=two) == ["c"]
        pages = [(await names(client, page_size=2, page=page)) for page in (1, 2, 3)]
        assert [len(page) for page in pages] == [2, 1, 0]
        assert (await client.delete(f"/files/{files[0]['id']}")).status_code == 204
        assert sorted(await names(client)) == ["b", "c"]
        assert problem(await client.delete(f"/files/{files[0]['id']}")) == (404, "not-found")
        assert len([path for path in (tmp_path / "files").rglob("*") if path.is_file()]) == 2


async def test_keys_reach_only_their_own_files(server: AppServer) -> None:
    client = native(server)
    one = await server.agent(ECHO, "One")
    page = await server.new_key(kind="beta", agents=[one])
    other_page = await server.new_key(kind="beta", agents=[one])
    stranger = await server.new_key("stranger")
    ours = await upload(server, one, "owner's")
    theirs = await upload(server, one, "visitor's", page)
    assert await names(client, page) == await names(client, other_page) == []
    assert await names(client, stranger) == []
    for key, file in ((page, ours), (page, theirs), (other_page, theirs), (stranger, ours)):
        assert problem(await client.delete(f"/files/{file['id']}", headers=authorize(key))) == (404, "not-found")
    assert sorted(await names(client)) == ["owner's", "visitor's"]
    assert problem(await client.get("/quotas", headers=authorize(page))) == (401, "unauthorized")


@pytest.mark.parametrize(("limit", "value", "quota"), [("max_files", 1, "files"), ("max_bytes", 15, "file_bytes")])
async def test_the_refusal_of_a_full_store_names_the_route_that_frees_it(
    server: AppServer, limit: str, value: int, quota: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILE_LIMITS, limit, value)
    client = native(server)
    agent_id = await server.agent(ECHO)
    file = await upload(server, agent_id, "a")
    folder = server.app_state.settings.server.files
    stored = set(folder.glob("*/*/*"))
    refused = await server.client.post(f"/agents/{agent_id}/upload", files={"file": ("b", b"x" * 10)})
    assert refused.status_code == 429
    assert set(folder.glob("*/*/*")) == stored
    message = refused.json()["message"]
    assert (f"quota {quota} of" in message, "DELETE /native/v1/files/ID" in message) == (True, True)
    assert (await client.delete(f"/files/{file['id']}")).status_code == 204
    await upload(server, agent_id, "b")
