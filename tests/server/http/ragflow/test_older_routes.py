import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import ECHO, FORM, AppServer, says, start_app
from tests.server.http.ragflow.test_deployment_routes import SECTIONS

COUNTING = says("Turn {sys.conversation_turns}")


async def send(server: AppServer, method: str, path: str, **options: Any) -> Any:
    return (await server.client.request(method, f"{server.url}/v1/canvas{path}", **options)).json()


async def save(server: AppServer, dsl: Any = ECHO, **fields: Any) -> Any:
    return await send(server, "POST", "/set", json={"title": "Helper", "dsl": dsl, **fields})


async def run(server: AppServer, path: str, **body: Any) -> list[Any]:
    answer = await server.client.post(f"{server.url}/v1/canvas{path}", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    lines = answer.text.removesuffix("\n\n").split("\n\n")
    return [json.loads(line.removeprefix("data:")) for line in lines if line != "data:[DONE]"]


def said(frames: list[Any]) -> str:
    return "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")


async def test_agents_and_versions(server: AppServer) -> None:
    created = (await save(server, json.dumps(ECHO), avatar="data:x"))["data"]
    agent_id = created["id"]
    assert created == {"id": agent_id, "title": "Helper", "dsl": ECHO, "avatar": "data:x", "release": False}
    assert (await save(server))["message"] == "An agent with the title 'Helper' already exists."
    changed = await save(server, FORM, id=agent_id, title="Form", release=True)
    assert (changed["data"]["dsl"], changed["data"]["release"]) == (FORM, True)
    shown = (await send(server, "GET", f"/get/{agent_id}"))["data"]
    assert (shown["title"], shown["dsl"]) == ("Form", FORM)
    assert shown["last_publish_time"] > 0
    settings = {"id": agent_id, "title": "Better", "permission": "team", "description": "For you", "dsl": ECHO}
    assert (await send(server, "POST", "/setting", json=settings))["data"] == 1
    for path in ("/list", "/listteam"):
        page = (await send(server, "GET", path, headers={"X-RAGFlow-Compat": "0.24"}))["data"]
        assert (page["total"], page["canvas"][0]["title"], page["canvas"][0]["permission"]) == (1, "Better", "team")
    assert (await send(server, "GET", f"/get/{agent_id}"))["data"]["dsl"] == FORM  # settings have no canvas
    assert (await send(server, "POST", "/rm", json={"canvas_ids": [agent_id]}))["data"] is True
    assert (await send(server, "GET", f"/get/{agent_id}"))["code"] == 102
    agent_id = (await save(server, release=True))["data"]["id"]
    [item] = (await send(server, "GET", f"/getlistversion/{agent_id}"))["data"]
    version = (await send(server, "GET", f"/getversion/{item['id']}"))["data"]
    assert (version["dsl"], version["user_canvas_id"], version["release"]) == (ECHO, agent_id, True)
    assert (await send(server, "GET", "/getversion/none"))["code"] == 102


async def test_turns_of_an_agent(server: AppServer) -> None:
    agent_id = (await save(server, COUNTING))["data"]["id"]
    assert [said(await run(server, "/completion", id=agent_id, query="Hi")) for _ in range(2)] == ["Turn 1", "Turn 2"]
    last = await run(server, "/completion", id=agent_id, query="Hi")
    shown = f"{server.url}/native/v1/agents/{agent_id}/runs/{last[-1]['message_id']}"
    fork = await server.post(f"{shown}/fork", {})
    assert said(await run(server, "/completion", id=agent_id, query="Hi", user_id="ada")) == "Turn 1"
    assert (await send(server, "POST", "/reset", json={"id": agent_id}))["data"]["components"] == COUNTING["components"]
    assert (await server.get(shown))["session_id"] == fork["session_id"]
    assert said(await run(server, "/completion", id=agent_id, query="Hi")) == "Turn 1"
    await save(server, ECHO, id=agent_id)
    assert said(await run(server, "/completion", id=agent_id, query="Hi")) == "You said Hi"
    agent_id = (await save(server, FORM, title="Form"))["data"]["id"]
    assert (await run(server, "/completion", id=agent_id, query="Hi"))[-1]["event"] == "user_inputs"
    frames = await run(server, "/completion", id=agent_id, inputs={"size": {"value": 42}})
    assert ([frame["event"] for frame in frames][-1], said(frames)) == ("workflow_finished", "Size 42")


async def test_sessions_are_created_used_listed_and_deleted(server: AppServer) -> None:
    agent_id = (await save(server))["data"]["id"]
    path = f"/{agent_id}/sessions"
    session = (await send(server, "PUT", path, json={"name": "Ada"}))["data"]
    assert (session["message"], session["reference"], session["dialog_id"]) == ([], [], agent_id)
    frames = await run(server, f"/{agent_id}/completion", query="Hi", session_id=session["id"])
    assert said(frames) == "You said Hi"
    listed = (await send(server, "GET", path))["data"]
    assert (listed["total"], listed["sessions"][0]["id"]) == (1, session["id"])
    assert [message["role"] for message in listed["sessions"][0]["message"]] == ["user", "assistant"]
    named = (await send(server, "GET", path, params={"exp_user_id": server.tenant}))["data"]
    assert named == {"total": 1, "sessions": [{"id": session["id"], "name": "Ada"}]}
    trace = {"canvas_id": agent_id, "message_id": frames[-1]["message_id"]}
    assert (await send(server, "GET", "/trace", params=trace))["code"] == 0
    assert (await send(server, "GET", f"{path}/{session['id']}"))["data"]["name"] == "Ada"
    assert (await send(server, "DELETE", f"{path}/{session['id']}"))["data"] == 1
    assert (await send(server, "GET", path))["data"]["total"] == 0


async def test_components_files_and_tasks_have_their_old_paths(server: AppServer) -> None:
    agent_id = (await save(server))["data"]["id"]
    query = {"id": agent_id, "component_id": "Message:0"}
    assert "sys.query" in (await send(server, "GET", "/input_form", params=query))["data"]
    debugged = await send(server, "POST", "/debug", json={**query, "params": {"sys.query": {"value": "Hi"}}})
    assert debugged["data"]["content"] == "You said Hi"
    file = (await send(server, "POST", f"/upload/{agent_id}", files={"file": ("a.txt", b"words")}))["data"]
    assert (await server.client.get(f"{server.url}/v1/canvas/download", params={"id": file["id"]})).content == b"words"
    assert (await send(server, "PUT", "/cancel/none"))["data"] is True
    assert set((await send(server, "GET", "/prompts"))["data"]) >= {"task_analysis", "reflection"}
    assert (await send(server, "GET", "/templates"))["data"]


@pytest.mark.parametrize(
    ("method", "path", "missing"),
    [
        ("POST", "/set", "dsl,title"),
        ("POST", "/setting", "id,title,permission"),
        ("POST", "/rm", "canvas_ids"),
        ("POST", "/completion", "id"),
        ("POST", "/reset", "id"),
        ("POST", "/debug", "id,component_id,params"),
        ("POST", "/test_db_connect", "db_type,database,username,host,port,password"),
        ("POST", "/rerun", "id,dsl,component_id"),
    ],
)
async def test_missing_fields_are_named(server: AppServer, method: str, path: str, missing: str) -> None:
    answer = await send(server, method, path, json={})
    assert answer == {"code": 101, "message": f"required argument are missing: {missing}; ", "data": None}


async def test_a_required_field_may_be_null(server: AppServer) -> None:
    assert (await save(server, None))["message"] == "No DSL data in request."
    agent_id = (await save(server))["data"]["id"]
    settings = {"id": agent_id, "title": "Better", "permission": None}
    assert (await send(server, "POST", "/setting", json=settings))["data"] == 1
    debugged = {"id": agent_id, "component_id": "Message:0", "params": None}
    assert (await send(server, "POST", "/debug", json=debugged))["code"] == 0
    assert (await server.post(f"/agents/{agent_id}/components/Message:0/debug", {"params": None}))["code"] == 0


async def test_a_page_key_does_not_show_the_canvas(server: AppServer) -> None:
    agent_id = (await save(server, avatar="data:x"))["data"]["id"]
    key = await server.new_key(kind="beta")
    shown = await send(server, "GET", f"/getsse/{agent_id}", headers={"Authorization": f"Bearer {key}"})
    assert (shown["data"]["avatar"], shown["data"]["dsl"]) == ("data:x", {})
    assert (await send(server, "GET", f"/getsse/{agent_id}", headers={"Authorization": "wrong"}))["code"] == 102


async def get(server: AppServer, path: str) -> Any:
    body = await server.get(f"{server.url}/v1/{path}")
    assert body["code"] == 0, body
    return body["data"]


async def test_the_models_of_the_settings_are_shown_without_keys_and_addresses(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        listed = await get(server, "llm/list")
        ids = {f"{model['llm_name']}@{model['fid']}": model for models in listed.values() for model in models}
        assert {id_: model["model_type"] for id_, model in ids.items()} == {
            "gpt-4.1@OpenAI": "chat",
            "o3@OpenAI": "chat",
            "demo@demo": "chat",
            "bge-m3@SILICONFLOW": "embedding",
            "bge-reranker@SILICONFLOW": "rerank",
        }
        assert [("IMAGE2TEXT" in ids[f"{name}@OpenAI"]["tags"]) for name in ("gpt-4.1", "o3")] == [True, False]
        assert [ids[f"{name}@OpenAI"]["is_tools"] for name in ("gpt-4.1", "o3")] == [True, False]
        assert list(await get(server, "llm/list?model_type=rerank")) == ["SILICONFLOW"]
    async with start_app(tmp_path, sections=SECTIONS) as server:
        own = await get(server, "llm/my_llms")
        assert [model["name"] for model in own["OpenAI"]["llm"]] == ["gpt-4.1", "o3"]
        factories = await get(server, "llm/factories")
        assert {each["name"]: each["model_types"] for each in factories} == {
            "OpenAI": ["chat", "image2text"],
            "demo": ["chat"],
            "SILICONFLOW": ["embedding", "rerank"],
        }
        assert "sk-hidden" not in str([own, factories])
        assert "internal" not in str([own, factories])


async def test_an_instance_of_a_provider_is_part_of_the_name(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections={"models": {"big@east@DeepSeek": {}, "free": {}}}) as server:
        listed = await get(server, "llm/list")
        assert [model["llm_name"] for model in listed["DeepSeek"]] == ["big@east"]
        assert "free" not in str(listed)  # it has no provider, so `llm_name@fid` would not name it


async def test_mcp_servers_are_listed_under_their_older_paths(tmp_path: Path) -> None:
    sections = {"mcp": {"a": {"url": "https://a.example/mcp"}, "b": {"url": "https://b.example/mcp"}}}
    async with start_app(tmp_path, sections=sections) as server:
        path = f"{server.url}/v1/mcp_server"
        cases: tuple[tuple[str, list[str], list[str]], ...] = (
            ("", [], ["a", "b"]),
            ("", ["b"], ["b"]),
            ("?page=2&page_size=1", [], ["b"]),
            ("?keywords=A", [], ["a"]),
        )
        for query, wanted, ids in cases:
            listed = (await server.post(f"{path}/list{query}", {"mcp_ids": wanted}))["data"]
            assert [each["id"] for each in listed["mcp_servers"]] == ids
        assert (await get(server, "mcp_server/detail?mcp_id=a"))["url"] == "https://a.example"
        assert (await server.get(f"{path}/detail"))["code"] == 102


async def test_other_lists_and_uploads_have_their_older_paths(tmp_path: Path) -> None:
    handbook = ListedKnowledge(DatasetEntry(Dataset("0f3c", "Handbook"), 2, 31))
    async with start_app(tmp_path, knowledge=handbook) as server:
        assert await get(server, "kb/get_meta?kb_ids=0f3c") == {"year": {"2026": ["0f3c-1"]}}
        assert (await get(server, "kb/get_meta"), await get(server, "plugin/llm_tools")) == ({}, [])
        assert await get(server, "document/thumbnails?doc_ids=1") == {}
        sent = {"file": ("a.txt", b"text", "text/plain")}
        assert (await server.post(f"{server.url}/v1/document/upload_info", files=sent))["data"]["name"] == "a.txt"


async def test_other_tenants_agents_do_not_exist(server: AppServer) -> None:
    agent_id = (await save(server, release=True))["data"]["id"]
    [version] = (await send(server, "GET", f"/getlistversion/{agent_id}"))["data"]
    headers = {"Authorization": f"Bearer {await server.new_key('other')}"}
    for method, path, body in (
        ("POST", "/set", {"id": agent_id, "title": "x", "dsl": ECHO}),
        ("POST", "/setting", {"id": agent_id, "title": "x", "permission": "me"}),
        ("POST", "/rm", {"canvas_ids": [agent_id]}),
        ("POST", "/completion", {"id": agent_id}),
        ("POST", "/reset", {"id": agent_id}),
        ("GET", f"/get/{agent_id}", None),
        ("GET", f"/getversion/{version['id']}", None),
        ("GET", f"/{agent_id}/sessions", None),
    ):
        assert (await send(server, method, path, json=body, headers=headers))["code"] in (102, 103), path
    assert (await send(server, "GET", "/list", headers=headers))["data"] == {"canvas": [], "total": 0}
