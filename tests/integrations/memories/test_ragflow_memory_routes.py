"""RAGFlow's routes for memories: what the SDK's methods and its front end call."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.integrations.memories import created_memories, ragflow_memory_routes
from ragflow_lg.integrations.memories.memory_layout import message_number
from ragflow_lg.integrations.memories.memory_prompt import PROMPT
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
from ragflow_lg.integrations.memories.open_memories import open_memories
from ragflow_lg.integrations.memories.stored_memories import StoredMemories
from ragflow_lg.server.agents import quotas
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.memories import Memories
from tests.fakes.knowledge_models import WordEmbedder
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.integrations.memories.memory_world import FACTS
from tests.server.http.app_server import AppServer, canvas, start_app
from tests.stores import fresh_prefix

RAW = {"name": "Notes", "memory_type": ["raw"], "embd_id": "", "llm_id": ""}
SAID = {"user_input": "I drink tea", "agent_response": "Fine."}
TOKEN = "password=hunter2hunter2"
DECLARED: dict[str, Any] = {"memories": {"notes": {"types": ["raw"]}}}


@asynccontextmanager
async def start(folder: Path, url: str = "", **sections: Any) -> AsyncGenerator[AppServer]:
    url = url or f"sqlite:///{folder}/memories.db"
    settings = Settings(checkpoints=url, checkpoint_prefix=fresh_prefix(), **sections)
    model = ScriptedModel([Reply(FACTS, repeat=True, usage=Usage(3, 2, 1))])
    services = fake_services(clock=SystemClock(), models=OneModel(model))
    async with (
        open_memories(settings, services) as memories,
        start_app(folder, memories=memories, sections=sections, shares_nothing="tenants" in sections) as server,
    ):
        yield server


async def create(server: AppServer, **fields: Any) -> str:
    made = await server.post("/memories", {**RAW, **fields})
    assert made["code"] == 0, made
    return made["data"]["id"]


async def add(server: AppServer, memory: str | list[str], question: str, user: str = "", **more: Any) -> Any:
    fields = {"agent_id": "a1", "session_id": "s1", "agent_response": "Fine.", "user_id": user, **more}
    return await server.post("/messages", {"memory_id": memory, "user_input": question, **fields})


async def messages(server: AppServer, memory: str, query: str = "") -> list[dict[str, Any]]:
    return (await server.get(f"/memories/{memory}{query}"))["data"]["messages"]["message_list"]


def remembers(memory: str) -> dict[str, Any]:
    """Build a canvas that writes to a memory, and says what it has found in it."""
    search = {"query": "{sys.query}", "memory_ids": [memory], "retrieval_from": "memory", "empty_response": "nothing"}
    content = {"content": ["{Retrieval:0@formalized_content}"], "memory_ids": [memory]}
    return canvas(
        ("begin", "Begin", {}, ["Retrieval:0"]),
        ("Retrieval:0", "Retrieval", search, ["Message:0"]),
        ("Message:0", "Message", content, []),
    )


async def test_a_memory_is_created_changed_and_deleted(tmp_path: Path, url: str) -> None:
    async with start(tmp_path, url) as server:
        id_ = await create(server)
        (listed,) = (await server.get("/memories"))["data"]["memory_list"]
        assert (listed["id"], listed["name"], listed["memory_type"]) == (id_, "Notes", ["raw"])
        assert (listed["tenant_id"], listed["embd_id"]) == (server.tenant, "wordllama")
        assert listed["create_time"] > 0
        second = (await server.post("/memories", {**RAW, "memory_type": ["episodic", "raw"], "llm_id": "m"}))["data"]
        assert (second["name"], second["memory_type"], second["llm_id"]) == ("Notes(1)", ["raw", "episodic"], "m")
        change = {"name": "Diary", "description": "Days.", "avatar": "", "permissions": "team", "llm_id": "m2"}
        same = {name: listed[name] for name in ("memory_size", "forgetting_policy", "temperature", "system_prompt")}
        changed = (await server.put(f"/memories/{id_}", {**change, **same, "user_prompt": ""}))["data"]
        assert changed == (await server.get(f"/memories/{id_}/config"))["data"]
        assert {name: changed[name] or "" for name in change} == change
        for query, ids in (
            ("keywords=DIA", [id_]),
            ("memory_type=episodic,semantic", [second["id"]]),
            (f"ids={id_}", [id_]),
            ("tenant_id=other", []),
            ("page=2&page_size=1", [id_]),
        ):
            found = (await server.get(f"/memories?{query}"))["data"]
            assert [memory["id"] for memory in found["memory_list"]] == ids, query
        await add(server, id_, "I drink tea")
        assert (await server.delete(f"/memories/{id_}"))["code"] == 0
        for path in (f"/memories/{id_}", f"/memories/{id_}/config"):
            gone = await server.get(path)
            assert (gone["code"], gone["message"]) == (404, f"Memory '{id_}' not found."), path
        memories: Any = server.app_state.services.of(Memories)
        store = (await memories.created._open()).store
        assert await store.asearch(("memories",)) == []
        one, same = await memories.find_shelf(second["id"]), await memories.find_shelf(second["id"])
        assert one._lock is same._lock
        prompts: Any = server.app_state.services.prompts
        prompts["style"] = "ragflow"
        shown = (await server.get(f"/memories/{second['id']}/config"))["data"]["system_prompt"]
        assert shown == PROMPT.ragflow


async def test_what_is_said_is_listed_searched_switched_off_and_forgotten(tmp_path: Path, url: str) -> None:
    async with start(tmp_path, url) as server:
        id_ = await create(server)
        assert await add(server, id_, "I drink tea") == {"code": 0, "message": "All add to task.", "data": None}
        await add(server, [id_], "I have a red hat", "anna", agent_id="a2", session_id="s2", agent_response=TOKEN)
        first, second = reversed(await messages(server, id_))
        assert (first["user_id"], first["agent_id"], first["session_id"], first["status"]) == ("", "a1", "s1", True)
        assert (second["message_type"], second["source_id"], second["agent_name"]) == ("raw", 0, "Unknown")
        for query, count in (("?agent_id=a2", 1), ("?agent_id=a1,a2", 2), ("?keywords=s2", 1), ("?keywords=TEA", 1)):
            assert len(await messages(server, id_, query)) == count, query
        recent = (await server.get(f"/messages?memory_id={id_}&limit=1"))["data"]
        assert [each["content"] for each in recent] == ["User: I have a red hat\nAssistant: password=***"]
        assert (await server.get(f"/messages?memory_id={id_}&session_id=s1"))["data"][0]["agent_id"] == "a1"
        path, search = f"/messages/{id_}:{first['message_id']}", f"/messages/search?memory_id={id_}&query="
        found = (await server.get(f"{search}tea"))["data"]
        assert [each["message_id"] for each in found] == [first["message_id"]]
        for query in ("hat&user_id=ben", "hat&agent_id=a1", "hat&session_id=s1", "hat&similarity_threshold=1"):
            assert (await server.get(search + query))["data"] == [], query
        assert len((await server.get(f"{search}hat&user_id=anna&agent_id=a2"))["data"]) == 1
        for status, count in ((False, 0), (True, 1)):
            assert (await server.put(path, {"status": status}))["code"] == 0
            assert len((await server.get(f"{search}tea"))["data"]) == count
            assert (await server.get(f"{path}/content"))["data"]["status"] is status
        assert (await server.delete(path))["code"] == 0
        assert (await server.get(f"{path}/content"))["code"] == 404
        assert [each["message_id"] for each in await messages(server, id_)] == [second["message_id"]]


async def test_what_is_extracted_stands_below_its_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered: list[str] = []

    def number(place: tuple[str, ...], key: str) -> int:
        numbered.append(key)
        return message_number(place, key)

    monkeypatch.setattr(ragflow_memory_routes, "message_number", number)
    monkeypatch.setattr(ragflow_memory_routes, "MAX_PAGE_SIZE", 1)
    async with start(tmp_path) as server:
        whole = await create(server, memory_type=["raw", "semantic"])
        facts = await create(server, memory_type=["semantic"])
        await add(server, f"{whole}, {facts}", "I am Anna.", "anna")
        memories: Any = server.app_state.services.of(Memories)
        await memories._tasks.settle()
        (exchange,) = await messages(server, whole)
        (fact,) = exchange["extract"]
        assert (fact["source_id"], fact["valid_at"]) == (exchange["message_id"], "2026-01-01 00:00:00")
        (alone,) = await messages(server, facts)
        assert (alone["session_id"], alone["extract"]) == ("s1", [])
        assert len(numbered) == 3 + 2  # each entry once, and its source
        shown = await server.get(f"{server.url}/native/v1/quotas")
        assert next(quota["used"] for quota in shown["quotas"] if quota["name"] == "tokens_day") == 10
        await add(server, whole, "I am Ben.")
        key = await server.new_key(compat="0.24")
        pages = await server.get(f"/memories/{whole}?page_size=50", headers={"Authorization": f"Bearer {key}"})
        assert [row["source_id"] for row in pages["data"]["messages"]["message_list"]] == [0]
        monkeypatch.setattr(quotas, "TOKENS_DAY", 10)
        refused = await add(server, whole, "I am Eva.")
        assert (refused["code"], "tokens_day of 10" in refused["message"]) == (429, True), refused
        await server.delete(f"/messages/{whole}:{exchange['message_id']}")
        assert exchange["message_id"] not in {row["message_id"] for row in await messages(server, whole)}


async def test_after_a_change_of_the_model_everything_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(embedders: ConfiguredEmbedders, id_: str) -> WordEmbedder:
        return WordEmbedder(name=id_ or embedders.default)

    monkeypatch.setattr(ConfiguredEmbedders, "embedder", find)
    async with start(tmp_path) as server:
        id_ = await create(server)
        await add(server, id_, "I drink tea", "anna")
        memories: Any = server.app_state.services.of(Memories)
        await memories._tasks.settle()
        assert (await server.put(f"/memories/{id_}", {"embd_id": "words"}))["code"] == 0
        await memories._tasks.settle()
        assert len((await server.get(f"/messages/search?memory_id={id_}&query=tea"))["data"]) == 1


async def test_what_changes_while_something_is_stored_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_: ConfiguredEmbedders, id_: str) -> WordEmbedder:
        return WordEmbedder(name=id_ or "words")

    monkeypatch.setattr(ConfiguredEmbedders, "embedder", find)
    async with start(tmp_path) as server:
        memory = await create(server, memory_type=["semantic"], embd_id="one")
        memories: Any = server.app_state.services.of(Memories)
        stored: Any = StoredMemories
        extract, write = stored._extract, MemoryShelf.write

        async def extract_later(*arguments: Any) -> Any:
            await server.client.put(f"/memories/{memory}", json={"embd_id": "two"})
            return await extract(*arguments)

        monkeypatch.setattr(StoredMemories, "_extract", extract_later)
        await add(server, memory, "I am Anna.")
        await memories._tasks.settle()
        shelf = await memories.find_shelf(memory)
        place = shelf.namespace(memories.tenant, "")
        assert any(shelf._vector_of(entry.value) for entry in await shelf.entries(place))

        async def write_late(*arguments: Any) -> None:
            await server.delete(f"/memories/{memory}")
            await write(*arguments)

        monkeypatch.setattr(MemoryShelf, "write", write_late)
        await add(server, memory, "I am Ben.")
        assert await shelf.entries(place) == []


async def test_a_canvas_uses_a_created_memory(tmp_path: Path) -> None:
    async with start(tmp_path) as server:
        id_ = await create(server)
        agent = await server.agent(remembers(id_), "Teas")
        session = (await server.ask(agent, "my tea is green", user_id="anna"))["data"]["session_id"]
        second = await server.ask(agent, "what is my tea?", user_id="anna")
        assert second["data"]["data"]["content"] == "User: my tea is green\nAssistant: nothing"
        entry = (await messages(server, id_))[-1]
        assert (entry["user_id"], entry["agent_name"], entry["session_id"]) == ("anna", "Teas", session)
        assert (await server.get(f"{server.url}/native/v1/memories"))["memories"][0]["name"] == "Notes"
        shown = await server.get(f"{server.url}/native/v1/memories/{id_}/entries?user_id=anna")
        assert (shown["total"], shown["entries"][0]["is_active"]) == (2, True)
        assert await server.delete(f"{server.url}/native/v1/memories/entries?user_id=anna") == {"deleted": 2}


async def test_memories_of_the_settings_are_used_but_not_changed(tmp_path: Path) -> None:
    async with start(tmp_path, **DECLARED) as server:
        await add(server, "notes", "I drink tea")
        assert len(await messages(server, "notes")) == 1
        assert (await server.get("/memories/notes/config"))["data"]["name"] == "notes"
        for refused in (await server.put("/memories/notes", {"name": "x"}), await server.delete("/memories/notes")):
            assert (refused["code"], '[memories."notes"]' in refused["message"]) == (102, True)


async def test_no_tenant_reaches_the_memories_of_another(tmp_path: Path) -> None:
    async with start(tmp_path, tenants={"other": {"models": ["m"]}}) as server:
        server.client.headers["Authorization"] = f"Bearer {await server.new_key('default')}"
        id_ = await create(server)
        await add(server, id_, "I drink tea")
        (message,) = await messages(server, id_)
        server.client.headers["Authorization"] = f"Bearer {await server.new_key('other')}"
        assert (await server.get("/memories"))["data"] == {"memory_list": [], "total_count": 0}
        for method, path in (
            ("GET", f"/memories/{id_}"),
            ("PUT", f"/memories/{id_}"),
            ("DELETE", f"/memories/{id_}"),
            ("GET", f"/messages/{id_}:{message['message_id']}/content"),
            ("DELETE", f"/messages/{id_}:{message['message_id']}"),
        ):
            assert (await server.client.request(method, path)).json()["code"] == 404, path
        assert (await add(server, id_, "I drink coffee"))["code"] == 500
        assert (await server.get(f"/messages?memory_id={id_}"))["data"] == []
        assert (await server.get(f"/messages/search?memory_id={id_}&query=tea"))["data"] == []
        page = await server.new_key("other", kind="beta")
        assert (await server.client.get("/memories", headers={"Authorization": f"Bearer {page}"})).status_code == 401


async def test_wrong_requests_are_refused_with_a_reason(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(created_memories, "MAX_CREATED", 1)
    async with start(tmp_path) as server:
        id_ = await create(server)
        new, one, sent = {**RAW, "name": "x"}, f"/memories/{id_}", {"memory_id": id_, "agent_id": "a"}
        for method, path, body, code, message in (
            ("POST", "/memories", {"name": "x"}, 101, "memory_type,embd_id,llm_id"),
            ("POST", "/memories", {**new, "name": " "}, 101, "cannot be empty"),
            ("POST", "/memories", {**new, "name": "x" * 129}, 101, "exceeds limit of 128"),
            ("POST", "/memories", {**new, "memory_type": "raw"}, 101, "must be a list"),
            ("POST", "/memories", {**new, "memory_type": ["raw", "dreams"]}, 101, "'dreams' is not supported"),
            ("POST", "/memories", {**new, "embd_id": "bge"}, 102, "no embedding model 'bge'"),
            ("POST", "/memories", new, 102, "may create 1 memories"),
            ("PUT", one, {"memory_size": 5}, 101, "`memory_size` cannot be changed: a memory keeps 1,000 entries"),
            ("PUT", one, {"system_prompt": "Remember!"}, 101, "`memory_extraction` in [prompts]"),
            ("PUT", one, {"permissions": "all"}, 101, "Unknown permission 'all'"),
            ("PUT", one, {"avatar": "x" * 100_001}, 101, "`avatar` has more than 100,000"),
            ("PUT", one, {"description": "x" * 4_001}, 101, "`description` has more than 4,000"),
            ("GET", f"{one}?page_size=101", None, 101, "page_size"),
            ("POST", "/messages", sent, 101, "session_id,user_input,agent_response"),
            ("POST", "/messages", {**sent, **SAID, "session_id": "x" * 256}, 101, "`session_id` has more than 255"),
            ("POST", "/messages", {**sent, **SAID, "session_id": "", "memory_id": ["x"] * 101}, 101, "more than 100"),
            ("GET", "/messages", None, 101, "memory_ids is required"),
            ("GET", f"/messages/search?memory_id={id_}", None, 101, "query"),
            ("GET", f"/messages?memory_id={id_}&limit=101", None, 101, "limit"),
            ("PUT", f"/messages/{id_}:1", {"status": "no"}, 101, "Status must be a boolean."),
            ("PUT", f"/messages/{id_}:1", {"status": True}, 404, "Message '1' in memory"),
            ("GET", f"/messages/{id_}:one/content", None, 101, "is a number"),
        ):
            answer = (await server.client.request(method, path, json=body)).json()
            assert (answer["code"], message in answer["message"]) == (code, True), (method, path, answer)
        for memory, user, detail in ((f"{id_},gone", "", "'gone' not found"), (id_, "x" * 1001, "1,001 characters")):
            refused = await add(server, memory, "I drink tea", user)
            assert (refused["code"], detail in refused["message"]) == (500, True), refused
