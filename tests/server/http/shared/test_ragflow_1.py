"""What clients of RAGFlow 1.0 get beside frames, who gets it, and what remains of the paths that 1.0 removed."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.http.app_server import ECHO, FORM, AppServer, canvas, frames, start_app

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "ragflow_1.md").read_text("utf-8")
COMPAT = "X-RAGFlow-Compat"
MISSING = "0" * 32


@pytest.fixture
def new(server: AppServer) -> AppServer:
    """Return the server with a client that asks for the responses of 1.0."""
    server.client.headers[COMPAT] = "1.0"
    return server


def read_table(name: str) -> list[list[str]]:
    """Return the cells of a table of the page, without its head."""
    text = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]
    assert len(rows) > 2, name
    return rows[2:]


def test_each_row_of_the_wire_names_a_test() -> None:
    folder = ROOT / "tests" / "server" / "http"
    names = {name for path in folder.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    rows = [row for table in ("frames", "answers") for row in read_table(table)]
    assert [row for row in rows if len(row) != 4 or row[3].strip("`") not in names] == []


async def test_who_chooses_the_version(tmp_path: Path) -> None:
    async def form(server: AppServer, agent_id: str, **headers: str) -> str:
        """Return the name of the event by which an agent asks."""
        body = {"agent_id": agent_id, "query": "hi"}
        return (await server.client.post("/agents/chat/completions", json=body, headers=headers)).json()["data"][
            "event"
        ]

    old, new = "user_inputs", "waiting_for_user"
    async with start_app(tmp_path, sections={"compat": {"ragflow": "1.0"}}) as server:
        plain, own = await server.agent(FORM), await server.agent({**FORM, "compat": {"ragflow": "0.27"}})
        keys = {
            compat: f"Bearer {await server.new_key(compat=compat)}" for compat in ("0.27", "0.25.1", "1.0", "current")
        }
        assert await form(server, plain) == new
        assert await form(server, own) == old
        assert await form(server, own, Authorization=keys["1.0"]) == new
        assert await form(server, plain, Authorization=keys["0.27"]) == old
        assert await form(server, plain, Authorization=keys["0.25.1"]) == old
        assert await form(server, plain, Authorization=keys["current"]) == new
        assert await form(server, plain, Authorization=keys["0.27"], **{COMPAT: "1.0"}) == new
        assert await form(server, plain, Authorization=keys["0.27"], **{COMPAT: "current"}) == new
        assert await form(server, own, Authorization=keys["1.0"], **{COMPAT: "current"}) == old
        session = await server.session(own)
        again = await server.ask(own, session_id=session)
        assert again["data"]["event"] == old
        refused = await server.get("/agents", headers={COMPAT: "2.0"})
        assert refused["message"].startswith("X-RAGFlow-Compat must be a release of RAGFlow, such as 0.27 or 1.0, or")
        assert await form(server, own, **{COMPAT: "1.0.0-rc3"}) == new
        assert await form(server, plain, **{COMPAT: "0.26.4"}) == old
        wrong = await server.post("/agents", {"title": "x", "dsl": {**FORM, "compat": {"ragflow": 1.0}}})
        assert (wrong["code"], 'Write "1.0", in quotes' in wrong["message"]) == (101, True)
        paths = (await server.client.get(f"{server.url}/openapi.json")).json()["paths"]
        assert "X-RAGFlow-Compat" in str(paths["/api/v1/agents"]["post"]["parameters"])


async def test_without_a_choice_clients_get_027(server: AppServer) -> None:
    agent_id = await server.agent({**FORM, "compat": {"ragflow": "1.0"}})
    assert (await server.ask(agent_id))["data"]["event"] == "waiting_for_user"
    played = await server.stream(agent_id)
    assert played[-1]["event"] == "waiting_for_user"
    assert (await server.ask(await server.agent(FORM)))["data"]["event"] == "user_inputs"


async def test_paths_that_only_older_programs_use_keep_their_form(new: AppServer) -> None:
    agent_id = await new.agent(FORM)
    asked = await new.client.post(f"/agents/{agent_id}/completions", json={"query": "hi", "stream": True})
    assert frames(asked.text)[-1]["event"] == "user_inputs"
    own = await new.agent({**FORM, "compat": {"ragflow": "1.0"}})
    asked = await new.post(f"/agents/{own}/completions", {"query": "hi"}, headers={COMPAT: "current"})
    assert asked["data"]["event"] == "user_inputs"
    asked = await new.client.post(f"{new.url}/v1/canvas/completion", json={"id": agent_id, "query": "hi"})
    assert '"event":"user_inputs"' in asked.text
    listed = await new.get(f"{new.url}/v1/canvas/list?page_size=1000")
    assert (listed["code"], listed["data"]["total"]) == (0, 2)
    shown = await new.get(f"{new.url}/v1/canvas/get/{agent_id}")
    assert ("message" in shown, shown["data"]["create_date"].endswith("GMT")) == (True, True)
    refused = await new.get(f"{new.url}/native/v1/keys", headers={"Authorization": "wrong"})
    assert "access token" not in str(refused)
    chat = {"model": agent_id, "messages": [{"role": "user", "content": "hi"}]}
    for path in (f"{new.url}/v1/chat/completions", f"/agents_openai/{agent_id}/chat/completions"):
        (choice,) = (await new.post(path, chat))["choices"]
        assert (choice["finish_reason"], list(choice["message"]["waiting_for_user"])) == (
            "waiting_for_user",
            ["inputs", "tips"],
        )


async def test_refusals(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    no_access = "Make sure you have permission to access the agent."
    sessions = f"/agents/{agent_id}/sessions"
    cases: list[tuple[str, str, Any, int, str]] = [
        ("GET", f"/agents/{MISSING}", None, 103, no_access),
        ("PUT", f"/agents/{MISSING}", {"title": "x"}, 103, no_access),
        ("GET", f"/agents/{agent_id}/versions/{MISSING}", None, 103, no_access),
        ("GET", f"{sessions}/{MISSING}", None, 404, "agent session not found"),
        ("DELETE", f"{sessions}/{MISSING}", None, 404, "agent session not found"),
        ("POST", "/agents", {"title": "x"}, 101, "no DSL data in request"),
        ("POST", "/agents", {"dsl": ECHO}, 101, "no title in request"),
        ("POST", "/agents/chat/completions", {}, 101, "`agent_id` is required."),
        ("POST", "/agents/chat/completions", {"agent_id": MISSING, "query": "x"}, 103, no_access),
    ]
    for method, path, body, code, message in cases:
        answer = await new.client.request(method, path, json=body)
        got = answer.json()
        assert (answer.status_code, got["code"], got["message"]) == (200, code, message), (method, path)
        assert got.get("data") is None
    for header, message in (("", "Missing Authorization header"), ("Bearer wrong", "Invalid access token")):
        answer = await new.client.get("/agents", headers={"Authorization": header})
        assert (answer.status_code, answer.json()) == (401, {"code": 401, "message": message, "data": None})
        page = await new.get(f"/agentbots/{agent_id}/inputs", headers={"Authorization": header})
        assert (page["code"], page["message"]) == (102, "Authorization is not valid!")


async def test_pages_of_lists(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    for path in ("/agents", f"/agents/{agent_id}/sessions"):
        for query in ("page_size=0", "page_size=101", "page_size=x", "page=0", "page=-1"):
            assert (await new.get(f"{path}?{query}"))["code"] == 101, query
            old = await new.get(f"{path}?{query}", headers={COMPAT: "0.27"})
            assert old["code"] == (101 if query == "page_size=101" else 0), query
        for query in ("", "page=1&page_size=100"):
            assert (await new.get(f"{path}?{query}"))["code"] == 0


async def test_rows_of_agents(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    (row,) = (await new.get("/agents"))["data"]["canvas"]
    assert (row["user_id"], row["type"], None in row.values()) == (row["tenant_id"], "agent", False)
    assert {"create_time", "update_time", "tags", "nickname"} <= {*row}
    shown = (await new.get(f"/agents/{agent_id}"))["data"]
    assert (shown["tags"], shown["release"], None in shown.values()) == ("", False, False)
    assert datetime.fromisoformat(shown["create_date"]).tzinfo is not None
    published = await new.post(f"/agents/{agent_id}/publish", {"description": "first"})
    assert (published["message"], published["data"]["release"]) == ("success", True)
    assert (await new.get(f"/agents/{agent_id}"))["data"]["last_publish_time"] > 0
    versions = (await new.get(f"/agents/{agent_id}/versions"))["data"]
    assert [version["dsl"]["components"].keys() for version in versions] == [ECHO["components"].keys()] * len(versions)
    assert (await new.delete(f"/agents/{agent_id}")) == {"code": 0, "message": "success", "data": True}


async def test_sessions(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    path = f"/agents/{agent_id}/sessions"
    made = await new.post(path, {})
    row = made["data"]
    assert made["message"] == "success"
    assert (row["agent_id"], row["dialog_id"], row["name"]) == (agent_id, agent_id, "session")
    assert (row["message"], row["reference"]) == ([], {})
    asked = (await new.ask(agent_id, "hi"))["data"]["session_id"]
    shown = (await new.get(f"{path}/{asked}"))["data"]
    assert (shown["dialog_id"], shown["source"], shown["name"]) == (agent_id, "agent", "hi")
    assert {type(message["created_at"]) for message in shown["message"]} == {int}
    assert shown["reference"] == [{"chunks": [], "doc_aggs": [], "total": 0}]
    assert (await new.delete(f"{path}/{asked}"))["data"] is True
    user = (await new.post(path, {"user_id": "ada"}))["data"]["id"]
    assert (await new.ask(agent_id, session_id=user))["data"]["data"]["content"] == "You said hello"
    assert [row["id"] for row in (await new.get(f"{path}?user_id=ada"))["data"]] == [user]


@pytest.mark.parametrize("compat", ["0.27", "1.0"])
async def test_what_both_versions_send_is_accepted(server: AppServer, compat: str) -> None:
    server.client.headers[COMPAT] = compat
    fields = {"mode": "conversational", "inputs": {"size": {"name": "Size", "type": "line"}}}
    said = {"content": ["{sys.query} {begin@size}"]}
    form = canvas(("begin", "Begin", fields, ["Message:0"]), ("Message:0", "Message", said, []))
    agent_id = await server.agent(form)
    for name in ("query", "question"):
        body = {"agent_id": agent_id, name: "hi", "inputs": {"size": {"value": "4"}}}
        assert (await server.post("/agents/chat/completions", body))["data"]["data"]["content"] == "hi 4"
    text = httpx.Response(200, json=form).text
    assert (await server.post("/agents", {"title": "Text", "dsl": text}))["code"] == 0
    path = f"/agents/{agent_id}/sessions"
    made = (await server.post(path, {"user_id": "ada"}))["data"]
    assert (made["agent_id"], made["dialog_id"]) == (agent_id, agent_id)
    assert (await server.post(f"/tasks/{made['id']}/cancel"))["data"] is True

    async def left() -> int:
        return (await server.get(path))["total"]

    ids = [await server.session(agent_id) for _ in range(4)]
    before = await left()
    assert (await server.client.request("DELETE", path, json={"ids": ids[:2]})).json()["code"] == 0
    assert (await server.delete(f"{path}?ids={ids[2]},{ids[3]}"))["code"] == 0
    assert await left() == before - 4
    assert (await server.delete(f"{path}?delete_all=true"))["code"] == 0
    assert await left() == 0
    body = {"agent_id": agent_id, "query": "hi", "stream": True}
    for sent, place in ((body, "/agents/chat/completions"), ({**body, "version": "draft"}, f"/agents/{agent_id}/run")):
        answer = await server.client.post(place, json=sent)
        assert answer.headers["x-accel-buffering"] == "no"
        assert "x-api-source" not in answer.headers
    language = await server.get("/language")
    assert language["data"] == {"language": "go" if compat == "1.0" else "python"}


async def test_webhooks_need_no_key_and_name_the_session(new: AppServer) -> None:
    begin = {
        "mode": "Webhook",
        "methods": ["POST"],
        "execution_mode": "Streaming",
        "security": {"allow_anonymous": True},
    }
    said = {"content": ["hooked"]}
    agent_id = await new.agent(canvas(("begin", "Begin", begin, ["Message:0"]), ("Message:0", "Message", said, [])))
    for headers in ({}, {"Authorization": f"Bearer {new.key}"}):
        answer = await new.stranger().post(
            f"/api/v1/agents/{agent_id}/webhook", json={}, headers={COMPAT: "1.0", **headers}
        )
        assert list(answer.json()) == ["message", "success", "code", "task_id", "session_id"], answer.text
    for path, compat in ((f"agents/{agent_id}/webhook", "0.27"), (f"webhook/{agent_id}", "1.0")):
        old = await new.stranger().post(f"/api/v1/{path}", json={}, headers={COMPAT: compat})
        assert list(old.json()) == ["message", "success", "code"], path


async def test_paths_that_1_removed(server: AppServer) -> None:
    """Each served path answers, whatever the client has chosen, and each other one says what to use."""
    agent_id = await server.agent(ECHO)
    session = await server.session(agent_id)
    for call, here, instead, _ in read_table("removed"):
        method, path = call.strip("`").split(" ")
        url = server.url + path.replace("AGENT", agent_id).replace("SESSION", session).replace("ID", MISSING)
        body = {"agent_id": agent_id, "query": "hi", "messages": [{"role": "user", "content": "hi"}], "action": "stop"}
        answer = await server.client.request(method, url, json=body)
        if here == "served":
            assert answer.status_code not in (404, 405), call
            other = await server.client.request(method, url, json=body, headers={COMPAT: "1.0"})
            both: list[Any] = [each.json() if each.text[:1] == "{" else {} for each in (answer, other)]
            forms: list[Any] = [[*each, each.get("code"), each.get("message"), type(each.get("data"))] for each in both]
            assert forms[0] == forms[1], call
            continue
        code, message = answer.json()["code"], answer.json()["message"]
        assert (here, code, answer.json().get("data")) == ("not served", 102, False), call
        assert instead in message, (call, message)
