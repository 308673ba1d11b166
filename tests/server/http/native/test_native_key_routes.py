from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.database.key_repository import KeyRepository
from tests.server.http.app_server import ECHO, start_app
from tests.server.http.native.native_client import native, problem

DAY_S = 86_400


async def test_a_key_of_pages_is_created_listed_and_revoked(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        one, two = await server.agent(ECHO, "One"), await server.agent(ECHO, "Two")
        made = await client.post("/keys", json={"agents": [one, one], "name": "window", "expires_days": 90})
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        key: dict[str, Any] = made.json()
        assert (key["agents"], key["name"], key["key"].startswith(key["prefix"])) == ([one], "window", True)
        assert key["expires_at"] - key["created_at"] == 90 * DAY_S
        page = {"Authorization": f"Bearer {key['key']}"}
        codes = [
            (await server.client.get(f"/agentbots/{id_}/inputs", headers=page)).json()["code"] for id_ in (one, two)
        ]
        assert codes == [0, 102]
        (listed,) = (await client.get("/keys")).json()["keys"]
        assert listed == {name: value for name, value in key.items() if name != "key"}
        assert problem(await client.get("/keys", headers=page)) == (401, "unauthorized")
        assert (await client.delete(f"/keys/{key['id']}")).status_code == 204
        assert (await client.get("/keys")).json() == {"keys": []}
        assert (await server.client.get(f"/agentbots/{one}/inputs", headers=page)).json()["code"] == 102
        assert problem(await client.delete(f"/keys/{key['id']}")) == (404, "not-found")


async def test_all_agents_are_allowed_only_on_request(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
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
async def test_other_keys_cannot_be_revoked_or_seen(tmp_path: Path, tenant: str, kind: str) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        keys = KeyRepository(server.app_state.database)
        key = await keys.create(tenant, 1, kind=kind, name="other")
        row = next(row for row in await keys.list() if row.name == "other")
        assert (await client.get("/keys")).json() == {"keys": []}
        assert problem(await client.delete(f"/keys/{row.id}")) == (404, "not-found")
        assert await keys.find(key, 2, kind) is not None
