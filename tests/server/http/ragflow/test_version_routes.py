from typing import Any

from ragflow_lg.server.database.tables import VersionRow
from tests.server.http.app_server import ECHO, FORM, AppServer, canvas, frames, says

MISSING = "0" * 32
LOUD = says("LOUD {sys.query}")


async def call(server: AppServer, method: str, path: str, body: Any = None) -> Any:
    return (await server.client.request(method, path, json=body)).json()


async def test_publishing_never_overwrites(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    path = f"/agents/{agent_id}/versions"
    (draft,) = (await call(server, "GET", path))["data"]
    assert (draft["release"], draft["user_canvas_id"], draft["dsl"]) == (False, agent_id, ECHO)
    first = (await call(server, "POST", path, {"title": "One", "description": "It echoes."}))["data"]
    second = (await call(server, "POST", f"/agents/{agent_id}/publish", {"dsl": LOUD}))["data"]
    assert (first["dsl"], second["dsl"], first["release"], second["title"]) == (ECHO, LOUD, True, "Helper")
    assert (await call(server, "GET", f"{path}/{first['id']}"))["data"] == first
    assert (await call(server, "GET", f"/agents/{agent_id}"))["data"]["dsl"] == LOUD
    assert len((await call(server, "GET", path))["data"]) == 4
    assert (await call(server, "GET", f"{path}/{MISSING}")) == {"code": 102, "message": "Version not found."}
    assert (await call(server, "POST", path, {"dsl": {"nodes": []}}))["code"] == 101
    assert (await call(server, "DELETE", f"{path}/{first['id']}"))["data"] is True
    assert (await call(server, "DELETE", f"{path}/draft"))["code"] == 103
    assert (await call(server, "DELETE", f"{path}/{first['id']}"))["code"] == 102
    server.client.headers["Authorization"] = await server.new_key("other")
    theirs = await server.agent(ECHO)
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{draft['id']}"), ("DELETE", f"/{draft['id']}")):
        assert (await call(server, method, f"/agents/{agent_id}/versions{path}"))["code"] == 103
    for method in ("GET", "DELETE"):
        assert (await call(server, method, f"/agents/{theirs}/versions/{draft['id']}"))["code"] == 102
    assert (await call(server, "POST", f"/agents/{theirs}/run?version={draft['id']}", {}))["code"] == 102
    assert (await call(server, "POST", f"/agents/{agent_id}/run", {}))["code"] == 103


async def test_a_stored_canvas_is_shown_with_its_whole_numbers(server: AppServer) -> None:
    """A pulled one may have numbers beyond 64 bits. Shown as floats, they changed when a page stored it."""
    agent_id = await server.agent({**ECHO, "globals": {"sys.query": "", "env.large": 7}})
    session, draft = await server.session(agent_id), (await server.agent_row(agent_id)).version_id
    async with server.app_state.database.writing() as db:
        row = await db.get_one(VersionRow, draft)
        row.dsl = row.dsl.replace('"env.large":7', f'"env.large":{10**22 + 1}')
    paths = [f"/agents/{agent_id}{path}" for path in ("", f"/versions/{draft}", "/sessions", f"/sessions/{session}")]
    for path in (*paths, f"{server.url}/native/v1/agents/{agent_id}/versions/{draft}"):
        answer = await server.client.get(path)
        assert f'"env.large":{10**22 + 1}' in answer.text, (path, answer.text)


async def test_a_canvas_that_cannot_run_is_not_published(server: AppServer) -> None:
    agent_id = await server.agent(
        canvas(("begin", "Begin", {}, ["UserFillUp:0"]), ("UserFillUp:0", "UserFillUp", {}, ["gone"]))
    )
    path = f"/agents/{agent_id}/versions"
    for body in ({}, {"dsl": canvas(("begin", "Begin", {}, ["gone"]))}):
        refused = await call(server, "POST", path, body)
        assert (refused["code"], "gone" in refused["message"]) == (101, True)
    broken = canvas(("begin", "Begin", {}, ["gone"]))
    for change in ({"release": True}, {"release": True, "dsl": broken}):
        assert (await call(server, "PUT", f"/agents/{agent_id}", change))["code"] == 101
    assert (await call(server, "POST", "/agents", {"title": "New", "dsl": broken, "release": True}))["code"] == 101
    assert [version["release"] for version in (await call(server, "GET", path))["data"]] == [False]


async def test_a_version_is_selected_by_name_or_id(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    path = f"/agents/{agent_id}"
    published = (await call(server, "POST", f"{path}/publish"))["data"]["id"]
    await call(server, "PATCH", path, {"dsl": LOUD})
    for version, content in (("draft", "LOUD hi"), ("published", "You said hi"), (published, "You said hi"), ("", "")):
        answer = await call(server, "POST", f"{path}/run?version={version}", {"user_input": "hi"})
        assert answer["data"]["data"]["content"] == (content or "You said hi")
    refused_delete = await call(server, "DELETE", f"{path}/versions/{published}")
    assert (refused_delete["code"], "3 sessions use this version" in refused_delete["message"]) == (103, True)
    assert (await call(server, "POST", f"{path}/run?version={MISSING}", {"query": "hi"}))["code"] == 102
    streamed = await server.client.post(f"{path}/stream", json={"message": "hi", "version": "draft"})
    assert [f["event"] for f in frames(streamed.text)][-1] == "workflow_finished"
    assert frames((await server.client.post(f"{path}/run?user_input=x", headers={"Accept": "text/event-stream"})).text)


async def test_a_run_continues_another_or_is_cancelled(server: AppServer) -> None:
    agent_id = await server.agent(FORM)
    path = f"/agents/{agent_id}/run"
    question = (await call(server, "POST", path, {"query": "hi"}))["data"]
    assert question["event"] == "user_inputs"
    body = {"inputs": {"size": {"value": 4, "type": "integer"}}}
    wrong = await call(server, "POST", f"{path}?resume_from={question['message_id']}", {"inputs": {"size": "big"}})
    assert (wrong["code"], "whole number" in wrong["message"]) == (101, True)
    done = await call(server, "POST", f"{path}?resume_from={question['message_id']}", body)
    assert done["data"]["data"]["content"] == "Size 4"
    assert (await call(server, "POST", f"{path}?resume_from={MISSING}", body))["code"] == 102
    agent_id = await server.agent(ECHO)
    path = f"/agents/{agent_id}/cancel"
    session = await server.session(agent_id)
    for name in ("session_id", "task_id"):
        assert (await call(server, "POST", path, {name: session}))["data"] is True
    assert (await call(server, "POST", path))["code"] == 101
    assert (await call(server, "POST", path, {"session_id": MISSING}))["code"] == 102
