from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, SettingsError
from ragflow_lg.integrations.memories.open_memories import open_memories
from ragflow_lg.server.assembly.open_services import open_integrations
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.memories import Memories
from tests.fakes.services import fake_services
from tests.server.http.app_server import AppServer, canvas, start_app
from tests.server.http.native.native_client import native, problem

REMEMBERS = canvas(
    ("begin", "Begin", {}, ["Retrieval:0"]),
    (
        "Retrieval:0",
        "Retrieval",
        {"query": "{sys.query}", "memory_ids": ["notes"], "retrieval_from": "memory", "empty_response": "nothing"},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{Retrieval:0@formalized_content}"], "memory_ids": ["notes"]}, []),
)
SECTIONS: dict[str, Any] = {
    "notes": {"types": ["raw"], "max_age_days": 30},
    "other": {"name": "Other", "types": ["raw"]},
}


@asynccontextmanager
async def start(folder: Path, **more: Any) -> AsyncGenerator[tuple[AppServer, httpx.AsyncClient]]:
    settings = Settings(checkpoints=f"sqlite:///{folder}/memories.db", memories=SECTIONS)
    async with (
        open_memories(settings, fake_services(clock=SystemClock())) as memories,
        start_app(
            folder, memories=memories, sections={"memories": SECTIONS, **more.pop("sections", {})}, **more
        ) as server,
        native(server) as client,
    ):
        yield server, client


async def entries(client: httpx.AsyncClient, user: str, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get("/memories/notes/entries", params={"user_id": user, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


async def talk(server: AppServer, agent: str, text: str, user: str) -> str:
    return (await server.ask(agent, text, user_id=user))["data"]["data"]["content"]


async def test_an_agent_remembers_each_user_over_sessions(tmp_path: Path) -> None:
    async with start(tmp_path) as (server, client):
        assert (await client.get("/memories")).json()["memories"] == [
            {"id": "notes", "name": "", "types": ["raw"], "max_entries": 1000, "max_age_days": 30.0},
            {"id": "other", "name": "Other", "types": ["raw"], "max_entries": 1000, "max_age_days": None},
        ]
        agent = await server.agent(REMEMBERS)
        for user, colour in (("anna", "green"), ("ben", "black")):
            assert await talk(server, agent, f"my tea is {colour}", user) == "nothing"
        for user, colour in (("anna", "green"), ("ben", "black")):
            assert await talk(server, agent, "what is my tea?", user) == f"User: my tea is {colour}\nAssistant: nothing"
        assert (await client.get("/memories/notes/users")).json() == {"users": ["anna", "ben"]}
        found = await entries(client, "anna")
        shown = [entry["content"].split("\n")[0] for entry in found]
        assert shown == ["User: what is my tea?", "User: my tea is green"]
        assert (found[1]["agent"], found[1]["type"], found[1]["memory"]) == (agent, "raw", "notes")


async def test_entries_are_searched_and_paged(tmp_path: Path) -> None:
    async with start(tmp_path) as (server, client):
        agent = await server.agent(REMEMBERS)
        for text in ("my tea is green", "my hat is red", "my dog is old"):
            await talk(server, agent, text, "anna")
        (found, *_) = await entries(client, "anna", question="Which hat?", page_size=1)
        assert found["content"].startswith("User: my hat")
        assert found["similarity"] > 0.2
        pages = [await entries(client, "anna", page=page, page_size=2) for page in (1, 2, 3)]
        assert [len(page) for page in pages] == [2, 1, 0]
        whole = (await client.get("/memories/notes/entries", params={"user_id": "anna", "page_size": 2})).json()
        assert whole["total"] == 3


async def test_everything_about_one_user_is_exported_and_deleted(tmp_path: Path) -> None:
    async with start(tmp_path) as (server, client):
        agent = await server.agent(REMEMBERS)
        for user in ("anna", "ben"):
            await talk(server, agent, "my tea is green", user)
            await talk(server, agent, "my hat is red", user)
        exported = (await client.get("/memories/entries", params={"user_id": "anna"})).json()
        assert (exported["total"], {entry["user"] for entry in exported["entries"]}) == (2, {"anna"})
        key = exported["entries"][0]["key"]
        assert (await client.delete(f"/memories/notes/entries/{key}", params={"user_id": "ben"})).status_code == 404
        one = await client.delete(f"/memories/notes/entries/{key}", params={"user_id": "anna"})
        assert one.json() == {"deleted": 1}
        assert (await client.delete("/memories/entries", params={"user_id": "anna"})).json() == {"deleted": 1}
        assert (await entries(client, "anna"), len(await entries(client, "ben"))) == ([], 2)


async def test_two_tenants_never_see_each_others_memories(tmp_path: Path) -> None:
    tenants = {"other": {"keys": ["memories.not*"]}, "third": {"keys": ["memories.other"]}}
    async with start(tmp_path, sections={"tenants": tenants}, shares_nothing=True) as (server, client):
        keys = {}
        for tenant in ("default", "other", "third"):
            keys[tenant] = await server.new_key(tenant)
        for tenant, tea in (("default", "green"), ("other", "black")):
            server.client.headers["Authorization"] = f"Bearer {keys[tenant]}"
            await talk(server, await server.agent(REMEMBERS), f"my tea is {tea}", "anna")
        for tenant, tea in (("default", "green"), ("other", "black")):
            client.headers["Authorization"] = f"Bearer {keys[tenant]}"
            (entry,) = await entries(client, "anna")
            assert f"my tea is {tea}" in entry["content"]
        client.headers["Authorization"] = f"Bearer {keys['third']}"
        assert problem(await client.get("/memories/notes/entries", params={"user_id": "anna"})) == (404, "not-found")
        assert [memory["id"] for memory in (await client.get("/memories")).json()["memories"]] == ["other"]


async def test_visitors_of_an_embedded_page_cannot_name_a_user_of_the_api(tmp_path: Path) -> None:
    async with start(tmp_path) as (server, client):
        agent = await server.agent(REMEMBERS)
        await talk(server, agent, "my tea is green", "anna")
        page = await server.new_key(kind="beta", agents=[agent])
        server.client.headers["Authorization"] = f"Bearer {page}"
        body: dict[str, Any] = {"inputs": {}, "query": "what is my tea?", "user_id": "anna", "stream": False}
        answer = (await server.client.post(f"/agentbots/{agent}/completions", json=body)).text
        assert "nothing" in answer
        assert "green" not in answer
        client.headers["Authorization"] = f"Bearer {page}"
        assert (await client.get("/memories/entries", params={"user_id": "anna"})).status_code == 401


async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with start(tmp_path) as (_, client):
        for method, path, status in (
            ("GET", "/memories/gone/users", 404),
            ("GET", "/memories/gone/entries?user_id=a", 404),
            ("GET", "/memories/notes/entries", 422),
            ("GET", "/memories/entries", 422),
            ("DELETE", "/memories/entries", 422),
            ("DELETE", "/memories/notes/entries/k?user_id=a", 404),
            ("GET", "/memories/notes/entries?user_id=a&page=0", 422),
            ("GET", f"/memories/notes/entries?user_id={'a' * 1001}", 422),
            ("GET", "/memories/notes/entries?user_id=a&q=tea", 422),
        ):
            assert (await client.request(method, path)).status_code == status, (method, path)


async def test_without_memories_there_is_nothing(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        client = native(server)
        assert (await client.get("/memories")).json() == {"memories": []}
        user = {"user_id": "anna"}
        assert (await client.get("/memories/entries", params=user)).json() == {"entries": [], "total": 0}
        assert (await client.delete("/memories/entries", params=user)).json() == {"deleted": 0}
        assert problem(await client.get("/memories/notes/users")) == (404, "not-found")


async def test_what_cannot_be_opened_is_not_empty(tmp_path: Path) -> None:
    services = fake_services()
    integrations: Any = services.integrations
    del integrations[Memories]
    with pytest.raises(CheckpointError) as refused:
        async with open_integrations(Settings(checkpoints=f"sqlite:///{tmp_path}", memories=SECTIONS), services):
            pass
    assert "Repair" not in str(refused.value)
    async with start(tmp_path) as (server, client):
        services = server.app_state.services
        integrations, unopened = cast("Any", services.integrations), cast("Any", services.unopened)
        unopened[Memories] = SettingsError(integrations.pop(Memories) and "It is closed.")
        for call in (client.get, client.delete):
            answer = await call("/memories/entries", params={"user_id": "anna"})
            assert (answer.status_code, "It is closed." in answer.text) == (500, True), answer.text
