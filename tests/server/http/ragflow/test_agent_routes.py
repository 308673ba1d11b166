import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.ragflow.agent_routes import AgentChange
from ragflow_lg.server.settings.sections import HttpSection
from tests.server.conftest import require_database_server
from tests.server.http.app_server import ECHO, FORM, AppServer, canvas, start_app

MISSING = "0" * 32
NO_ACCESS = {"code": 103, "message": "Make sure you have permission to access the agent.", "data": False}


async def test_an_agent_is_created_shown_changed_and_deleted(server: AppServer) -> None:
    created = await server.post("/agents", {"title": " Helper ", "dsl": json.dumps(ECHO)})
    agent = created["data"]
    assert (created["code"], agent["title"], agent["dsl"], agent["canvas_category"]) == (
        0,
        "Helper",
        ECHO,
        "agent_canvas",
    )
    assert len(agent["id"]) == 32
    assert agent["last_publish_time"] is None
    assert (await server.get(f"/agents/{agent['id']}"))["data"] == agent
    changed = await server.client.put(f"/agents/{agent['id']}", json={"dsl": FORM, "release": True, "avatar": None})
    assert changed.json()["data"]["update_time"] >= agent["update_time"]
    assert (await server.get(f"/agents/{agent['id']}?dsl_version=v2"))["code"] == 101
    data = (await server.get(f"/agents/{agent['id']}"))["data"]
    assert (data["dsl"], data["title"], data["last_publish_time"] is not None) == (FORM, "Helper", True)
    example: Any = AgentChange.model_json_schema()["examples"][0]
    await server.agent(example["dsl"], example["title"])
    for headers in ({}, {"X-RAGFlow-Compat": "0.24"}):
        listed = (await server.get("/agents", headers=headers))["data"]
        rows = listed if headers else listed["canvas"]
        assert {row["title"]: row["release_time"] for row in rows} == {
            "Helper": data["last_publish_time"],
            example["title"]: None,
        }
    body = {"title": "Aide", "dsl": ECHO, "compat": "ragflow"}  # as in a file
    for dsl in (ECHO, json.dumps(ECHO)):
        changed = await server.client.patch(f"/agents/{agent['id']}", json={**body, "dsl": dsl})
        assert changed.json()["code"] == 0
        assert (await server.get(f"/agents/{agent['id']}"))["data"]["dsl"] == {**ECHO, "compat": "ragflow"}
    removed = await server.client.request("DELETE", f"/agents/{agent['id']}", json={})
    assert removed.json() == {"code": 0, "message": "success", "data": True}
    gone = await server.client.get(f"/agents/{agent['id']}")
    assert (gone.status_code, gone.json()) == (200, {"code": 102, "message": "canvas not found."})


REFUSED: list[tuple[Any, int, str]] = [
    ({"title": "A"}, 101, "No DSL data in request."),
    ({"dsl": ECHO}, 101, "No title in request."),
    ({"title": "  ", "dsl": ECHO}, 101, "No title in request."),
    ({"title": "A", "dsl": "{"}, 101, "The DSL is not JSON"),
    ({"title": "A", "dsl": [1]}, 101, "The DSL should be a JSON object."),
    ({"title": "A", "dsl": {"components": {}}}, 101, ""),
    ({"title": "A", "dsl": canvas(("begin", "Begin", {"inputs": 7}, []))}, 101, "inputs"),
    ({"title": "A" * 256, "dsl": ECHO}, 101, "The title must have"),
    ({"title": "A", "dsl": ECHO, "permission": "x" * 17}, 101, "permission must have at most"),
    ({"title": "taken", "dsl": ECHO}, 102, "already exists"),
    ([1], 101, "must be a JSON object"),
    ("{", 101, "not JSON"),
]


async def test_invalid_agents_are_refused(server: AppServer) -> None:
    await server.agent(ECHO, "Taken")
    for body, code, message in REFUSED:
        content = body if isinstance(body, str) else json.dumps(body)
        answer = await server.client.post("/agents", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (200, code), body
        assert message in answer.json()["message"]


async def test_agents_are_listed_filtered_and_sorted(server: AppServer) -> None:
    for title in ("A", "B", "C"):
        await server.agent(ECHO, title)

    async def titles(query: str) -> list[str]:
        data = (await server.get(f"/agents?{query}"))["data"]
        return [agent["title"] for agent in data["canvas"]]

    assert sorted(await titles("")) == ["A", "B", "C"]
    assert await titles("orderby=title&desc=false&page=2&page_size=2") == ["C"]
    assert await titles("keywords=b&page=nonsense&page_size=-1") == ["B"]
    assert await titles(f"title=C&canvas_category=agent_canvas,dataflow_canvas&owner_ids={server.tenant}") == ["C"]
    assert await titles(f"id={MISSING}") == []
    listed = await server.get("/agents?page_size=1")
    assert (listed["code"], listed["data"]["total"], "dsl" in listed["data"]["canvas"][0]) == (0, 3, False)
    assert (await server.get("/agents?page_size=101"))["code"] == 101
    assert (await server.get("/agents?owner_ids=other"))["code"] == 103
    old = (await server.get("/agents", headers={"X-RAGFlow-Compat": "0.24"}))["data"]
    assert [agent["dsl"] for agent in old] == [ECHO] * 3
    agent_id = await server.agent(ECHO)
    for query in (f"id={MISSING}", "title=Nobody"):
        old = await server.client.get(f"/agents?{query}", headers={"X-RAGFlow-Compat": "0.24"})
        assert old.json() == {"code": 102, "message": "The agent doesn't exist."}
        assert (await server.get(f"/agents?{query}"))["data"] == {"canvas": [], "total": 0}
    found = await server.client.get(f"/agents?id={agent_id}", headers={"X-RAGFlow-Compat": "0.24"})
    assert [row["id"] for row in found.json()["data"]] == [agent_id]


async def test_filter_values_are_counted(server: AppServer) -> None:
    empty = (await server.get("/agents?type=filter"))["data"]
    assert empty == {"filter": {"owner": [], "canvas_category": []}, "total": 0}
    await server.agent(ECHO, "A")
    await server.agent(ECHO, "B", canvas_category="dataflow_canvas")
    assert (await server.get("/agents?type=filter"))["data"] == {
        "filter": {
            "owner": [{"id": server.tenant, "label": server.tenant, "count": 2}],
            "canvas_category": [{"id": "agent_canvas", "count": 1}, {"id": "dataflow_canvas", "count": 1}],
        },
        "total": 2,
    }


async def test_agents_of_other_tenants_are_not_found(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    other = {"Authorization": await server.new_key("other")}
    for id_ in (agent_id, MISSING, "%00"):
        refused = await server.client.put(f"/agents/{id_}", json={"title": "Mine"}, headers=other)
        assert refused.json() == NO_ACCESS
    before = "Only owner of canvas authorized for this operation."
    owner = "Only the owner of the agent is authorized for this operation."
    for compat, prefix in (("0.24", ""), ("0.25.1", f"{before} "), ("current", "")):
        headers = {**other, "X-RAGFlow-Compat": compat}
        refused = await server.client.put(f"/agents/{agent_id}", json={"title": "Mine"}, headers=headers)
        assert refused.json()["message"] == (before if compat == "0.24" else f"{prefix}{NO_ACCESS['message']}")
        deleted = await server.delete(f"/agents/{agent_id}", headers=headers)
        assert (deleted["code"], deleted["message"]) == (103, before if compat == "0.24" else f"{prefix}{owner}")
    assert (await server.get(f"/agents/{agent_id}", headers=other))["code"] == 102
    question = await server.client.post(
        "/agents/chat/completions", json={"agent_id": agent_id, "query": "x"}, headers=other
    )
    assert (question.json(), (await server.get("/agents", headers=other))["data"]["total"]) == (NO_ACCESS, 0)
    assert (await server.ask(agent_id))["code"] == 0


async def test_a_folder_of_templates_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[server\] templates is '.*/none', but '.*/none' is no folder."):
        async with start_app(tmp_path, templates=tmp_path / "none"):
            pass


async def test_templates_are_valid_agents(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "echo.json").write_text(json.dumps({"title": "Echo", "dsl": ECHO}))
    async with start_app(tmp_path, templates=tmp_path / "own") as server:
        listed = await server.get("/agents/templates")
        assert listed["code"] == 0
        for template in listed["data"]:
            await server.agent(template["dsl"], template["title"]["en"])
        assert listed["data"][-1]["title"] == {"en": "Echo"}


async def test_prompts_templates_and_unknown_words(server: AppServer) -> None:
    answer = (await server.get("/agents/prompts"))["data"]
    assert list(answer) == ["task_analysis", "plan_generation", "reflection", "citation_guidelines"]
    assert all(isinstance(text, str) and text for text in answer.values())
    word = await server.client.post("/agents/sort", json={})
    assert (word.status_code, word.json()["code"], word.json()["message"]) == (
        404,
        404,
        "Not Found: /api/v1/agents/sort",
    )
    assert (await server.client.post(f"/agents/{await server.agent(ECHO)}")).status_code == 405


async def test_tags_are_set_and_counted(server: AppServer) -> None:
    one, two = await server.agent(ECHO, "A"), await server.agent(ECHO, "B")
    answer = await server.client.put(f"/agents/{one}/tags", json={"tags": ["shop", "Mail", "mail", "a,b", " ", 7]})
    assert answer.json() == {"code": 0, "message": "success", "data": True}
    await server.client.put(f"/agents/{two}/tags", json={"tags": "shop, " + "x" * 70})
    listed = (await server.get("/agents/tags"))["data"]
    assert listed == [
        {"tag": "shop", "count": 2},
        {"tag": "Mail", "count": 1},
        {"tag": "a b", "count": 1},
        {"tag": "x" * 64, "count": 1},
    ]
    assert (await server.get("/agents/tags?canvas_category=dataflow_canvas"))["data"] == []
    assert (await server.get(f"/agents?id={one}"))["data"]["canvas"][0]["tags"] == "shop,Mail,a b"
    for query, titles in (("shop", "AB"), ("mail", "A"), ("a b,x", "A"), ("sho", ""), ("%", ""), ("a,b", "")):
        frames = await server.get("/agents", params={"tags": query, "orderby": "title", "desc": "false"})
        assert "".join(agent["title"] for agent in frames["data"]["canvas"]) == titles, query
    for wrong in (["shop"], None):
        slip = await server.client.put(f"/agents/{one}/tags", json={"tag": wrong})
        assert (slip.json()["code"], slip.json()["message"]) == (101, "required argument are missing: tags; ")
    await server.client.put(f"/agents/{one}/tags", json={})
    assert len((await server.get("/agents/tags"))["data"]) == 2
    other = {"Authorization": await server.new_key("other")}
    assert (await server.put(f"/agents/{one}/tags", {"tags": "x"}, headers=other))["code"] == 103
    assert (await server.get("/agents/tags", headers=other))["data"] == []


@pytest.mark.parametrize("tags", [7, {"a": 1}, [f"{n:064}" for n in range(9)]])
async def test_invalid_tags_are_refused(server: AppServer, tags: Any) -> None:
    answer = await server.client.put(f"/agents/{await server.agent(ECHO)}/tags", json={"tags": tags})
    assert answer.json()["code"] == 101


async def test_nodes_that_are_not_filled_in_yet_can_be_stored_and_say_so_when_they_run(server: AppServer) -> None:
    fresh = canvas(
        ("begin", "Begin", {}, ["UserFillUp:0"]),
        ("UserFillUp:0", "UserFillUp", {"enable_tips": True, "tips": "", "inputs": []}, ["Iteration:0"]),
        ("Iteration:0", "Iteration", {"items_ref": "", "outputs": {}}, ["Message:0"]),
        ("IterationItem:0", "IterationItem", {}, []),
        ("Message:0", "Message", {"content": ["done"]}, []),
    )
    fresh["components"]["IterationItem:0"]["parent_id"] = "Iteration:0"
    agent_id = await server.agent(fresh)
    answer = await server.ask(agent_id)
    assert answer["code"] == 101
    assert "Iteration.items_ref: '' is not a reference; write component@output" in answer["message"]
    fresh["components"]["Iteration:0"]["obj"]["params"]["items_ref"] = "no reference"
    refused = await server.client.put(f"/agents/{agent_id}", json={"dsl": fresh})
    assert (refused.json()["code"], "items_ref" in refused.json()["message"]) == (101, True)


PATH = "/agents/test_db_connection"
FIELDS: dict[str, Any] = {
    "db_type": "postgres",
    "database": "shop",
    "username": "reader",
    "host": "127.0.0.1",
    "port": "5432",
    "password": "secret",
}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({}, 100, "address is not on the public internet"),
        ({"host": "no-such-host.invalid"}, 100, "cannot be resolved"),
        ({"db_type": "IBM DB2"}, 100, "ibm db2 needs the package ibm-db-sa"),
        ({"db_type": "oracle"}, 100, "There is no database type 'oracle'"),
        ({"db_type": "sqlite"}, 100, "A canvas cannot name a sqlite file"),
        ({"password": None}, 100, "address is not on the public internet"),
        ({"port": "http"}, 101, "`port` must be a number"),
        ({"port": 70000}, 101, "`port` must be a number"),
    ],
)
async def test_what_cannot_be_tried_is_told(server: AppServer, change: dict[str, Any], code: int, message: str) -> None:
    answer = await server.client.post(PATH, json=FIELDS | change)
    assert (answer.status_code, answer.json()["code"]) == (200, code)
    assert message in answer.json()["message"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "db_type"), [("postgresql", "postgres"), ("mariadb", "mariadb")])
async def test_a_real_database_is_reached(tmp_path: Path, kind: str, db_type: str) -> None:
    url = make_url(require_database_server(kind))
    fields = {
        "db_type": db_type,
        "database": url.database or ("postgres" if kind == "postgresql" else "mysql"),
        "username": url.username,
        "host": url.host,
        "port": url.port,
        "password": url.password or "",
    }
    async with start_app(tmp_path, http=HttpSection(allow=("127.0.0.1",))) as server:
        answer = await server.post(PATH, fields)
        assert answer == {"code": 0, "message": "success", "data": "Database Connection Successful!"}
        assert (await server.post(PATH, fields, headers={"X-RAGFlow-Compat": "1.0"}))["data"] is True
        wrong = await server.post(PATH, fields | {"database": "no_such_database"})
        assert wrong["code"] == 100
        assert "no_such_database" in wrong["message"]
