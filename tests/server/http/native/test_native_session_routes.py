from typing import Any

import orjson
from langgraph.types import Command

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.library import load_canvas
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.services import fake_services
from tests.server.http.app_server import ECHO, FORM, AppServer, canvas
from tests.server.http.native.native_client import native, play_one, problem

MISSING = "0" * 32


async def test_a_session_is_created_listed_shown_and_deleted(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    response = await client.post("/sessions", json={"name": "First", "user_id": "ada"})
    session = response.json()
    assert (response.status_code, session["name"], session["user_id"], session["is_busy"]) == (
        201,
        "First",
        "ada",
        False,
    )
    assert [message["content"] for message in session["messages"]] == ["Hi there!"]
    await client.post("/sessions", json={})
    assert (await client.get("/sessions?page_size=1")).json()["total"] == 2
    listed = (await client.get("/sessions?user_id=ada")).json()
    assert [row["id"] for row in listed["sessions"]] == [session["id"]]
    assert (await client.get(f"/sessions/{session['id']}")).json() == session
    gone = await client.delete(f"/sessions/{session['id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    assert problem(await client.get(f"/sessions/{session['id']}")) == (404, "not-found")
    assert problem(await client.delete(f"/sessions/{MISSING}")) == (404, "not-found")
    assert problem(await client.get("/sessions?page_size=1000")) == (422, "invalid")
    assert problem(await client.post("/sessions", json={"version": "published"})) == (404, "not-found")


async def test_a_session_is_renamed_pinned_and_found_with_its_state(server: AppServer) -> None:
    client = native(server, await server.agent(FORM))
    long = f"{'x ' * 90}parcel{' y' * 90}"
    waiting = (await client.post("/runs", json={"query": long})).json()["session_id"]
    ended = (await client.post("/runs", json={"query": "second"})).json()
    await client.post(f"/runs/{ended['id']}/resume", json={"fields": {"size": 1}})
    empty = (await client.post("/sessions", json={"name": "third"})).json()
    assert (empty["pinned"], empty["status"]) == (False, "")
    path = f"/sessions/{waiting}"
    before = (await client.get(path)).json()
    changed = (await client.patch(path, json={"pinned": True})).json()
    assert (changed["name"], changed["pinned"]) == (before["name"], True)
    named = (await client.patch(path, json={"name": "Size"})).json()
    assert named == {**changed, "name": "Size"}
    assert named["update_ms"] == before["update_ms"]
    rows = (await client.get("/sessions")).json()["sessions"]
    assert rows[0]["id"] == waiting
    states = {row["id"]: row["status"] for row in rows}
    assert states == {waiting: "waiting", ended["session_id"]: "succeeded", empty["id"]: ""}
    assert {row["excerpt"] for row in rows} == {""}
    (found,) = (await client.get("/sessions?keywords=PARCEL")).json()["sessions"]
    assert found["excerpt"] == f"…{'x ' * 30}parcel{' y' * 30}…"
    (found,) = (await client.get("/sessions?keywords=size&page_size=1")).json()["sessions"]
    assert (found["id"], found["name"], found["excerpt"]) == (waiting, "Size", "Which size?")
    (found,) = (await client.get("/sessions?keywords=thir")).json()["sessions"]
    assert (found["id"], found["excerpt"]) == (empty["id"], "")
    assert (await client.patch(path, json={"name": ""})).json() == {**changed, "name": long[:250]}
    run_id = (await client.get(f"/runs?session_id={waiting}")).json()["runs"][0]["id"]
    await client.post(f"/runs/{run_id}/cancel")
    assert (await client.get(path)).json()["status"] == "cancelled"
    await client.patch(path, json={"pinned": False})
    assert (await client.get("/sessions")).json()["sessions"][-1]["id"] == waiting
    for invalid in ({"name": "x" * 256}, {"pinned": 1}, {"colour": "red"}):
        assert problem(await client.patch(path, json=invalid)) == (422, "invalid")
    other = native(server, await server.agent(ECHO, "Other"))
    assert problem(await other.patch(path, json={"name": "Mine"})) == (404, "not-found")
    strange = {"Authorization": f"Bearer {await server.new_key('stranger')}"}
    assert problem(await client.patch(path, json={"name": "Mine"}, headers=strange)) == (404, "not-found")


async def test_history_has_nodes_times_sizes_and_pages(server: AppServer) -> None:
    client, run = await play_one(server, FORM)
    path = f"/sessions/{run['session_id']}/history"
    whole = (await client.get(path)).json()
    assert whole["has_more"] is False
    newest = whole["moments"][0]
    assert newest["next"] == [{"id": "UserFillUp:0", "title": "UserFillUp:0"}]
    assert (newest["checkpoint"], newest["region"], newest["size_bytes"] > 0) == (run["checkpoint"], None, True)
    assert run["start_ms"] <= newest["create_ms"] <= run["end_ms"] + 1
    paged = [(await client.get(f"{path}?offset={n}&limit=1")).json() for n in range(len(whole["moments"]))]
    assert [page["moments"][0] for page in paged] == whole["moments"]
    assert [page["has_more"] for page in paged] == [True] * (len(paged) - 1) + [False]


async def test_old_turns_of_a_session_are_pruned(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    session = (await client.post("/runs", json={"query": "x" * 2000})).json()["session_id"]
    await client.post("/runs", json={"query": "second", "session_id": session})
    path = f"/sessions/{session}"
    planned = await client.post(f"{path}/prune", json={"keep_turns": 1, "dry_run": True})
    assert (planned.status_code, planned.json()["runs"]) == (200, 1)
    recent = await client.post(f"{path}/prune", json={"keep_turns": 1, "keep_days": 1})
    assert recent.json() == {"checkpoints": 0, "parts": 0, "runs": 0, "bytes": 0}
    async with hold_lease(server.app_state.store.leases, session):
        assert problem(await client.post(f"{path}/prune", json={"keep_turns": 1})) == (409, "session-busy")
    assert (await client.post(f"{path}/prune", json={"keep_turns": 1})).json() == planned.json()
    assert planned.json()["checkpoints"] > 0
    assert planned.json()["bytes"] > 2000
    third = (await client.post("/runs", json={"query": "third", "session_id": session})).json()
    assert third["answer"] == "You said third"
    messages = (await client.get(path)).json()["messages"]
    assert [message["content"][:6] for message in messages if message["role"] == "user"] == ["x" * 6, "second", "third"]
    assert problem(await client.post(f"{path}/prune", json={})) == (422, "invalid")
    for invalid in ({"keep_turns": 0}, {"keep_turns": True}, {"keep_turns": 1, "keep_days": False}):
        assert problem(await client.post(f"{path}/prune", json=invalid)) == (422, "invalid")
    assert problem(await client.post(f"/sessions/{MISSING}/prune", json={"keep_turns": 1})) == (404, "not-found")


async def test_a_session_keeps_to_its_version_until_another_is_pinned(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    session = (await client.post("/sessions", json={})).json()
    await client.post("/versions", json={"dsl": FORM})
    body = {"query": "hi", "session_id": session["id"]}
    assert (await client.post("/runs", json=body)).json()["answer"] == "You said hi"
    assert problem(await client.post("/runs", json={**body, "version": "published"})) == (422, "invalid")
    path = f"/sessions/{session['id']}/version"
    pinned = (await client.put(path, json={"version": "published"})).json()
    assert pinned["version_id"] != session["version_id"]
    run = (await client.post("/runs", json=body)).json()
    assert (run["status"], run["version_id"]) == ("waiting", pinned["version_id"])
    await client.put(path, json={"version": session["version_id"]})
    changed = await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})
    assert problem(changed) == (409, "canvas-changed")
    assert problem(await client.put(path, json={"version": MISSING})) == (404, "not-found")
    assert problem(await client.put(path, json={"version": ""})) == (422, "invalid")


async def test_changes_made_in_studio_are_visible(server: AppServer) -> None:
    client = native(server, await server.agent(FORM))
    saver = server.app_state.store.saver  # as LangGraph's server has it, from the same settings
    studio: Any = load_canvas(FORM, services=fake_services(), checkpointer=saver)
    run = (await client.post("/runs", json={"query": "hi"})).json()
    path = f"/sessions/{run['session_id']}"
    thread: Any = {"configurable": {"thread_id": thread_of_session(run["session_id"])}}
    state = await studio.ainvoke(Command(resume={"size": 4}), thread)
    assert (state["messages"][-1]["content"], (await client.get(f"{path}/pauses")).json()) == ("Size 4", [])
    assert (await client.get(f"{path}/history")).json()["moments"][0]["next"] == []
    await studio.ainvoke({"query": "again"}, thread)
    (pause,) = (await client.get(path)).json()["pauses"]
    assert pause["tips"] == "Which size?"
    ended = (await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 7}})).json()
    assert (ended["status"], ended["answer"]) == ("succeeded", "Size 7")
    state = await studio.aget_state(thread)
    assert [message["content"] for message in state.values["messages"]] == ["hi", "Size 4", "again", "Size 7"]
    messages = (await client.get(path)).json()["messages"]
    assert [message["content"] for message in messages] == ["hi", "Which size?", "Size: 7", "Size 7"], "its own runs"


async def test_a_session_is_downloaded_as_one_page(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    assert problem(await client.get(f"/sessions/{MISSING}/run-file")) == (404, "not-found")
    empty = (await client.post("/sessions", json={})).json()["id"]
    assert problem(await client.get(f"/sessions/{empty}/run-file")) == (404, "not-found")
    session = (await client.post("/runs", json={"query": "</script>"})).json()["session_id"]
    file = await client.get(f"/sessions/{session}/run-file")
    assert (file.status_code, file.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert file.headers["content-disposition"] == f'attachment; filename="{session}.html"'
    assert "You said \\u003c/script>" in file.text
    assert file.text.count("</script>") == 2


async def test_a_run_file_has_the_forms_and_their_answers_without_secrets(server: AppServer) -> None:
    fields = {"size": {"name": "Size", "type": "integer"}, "pin": {"name": "Code", "type": "line"}}
    dsl = canvas(
        ("begin", "Begin", {}, ["UserFillUp:0"]),
        ("UserFillUp:0", "UserFillUp", {"enable_tips": True, "tips": "Which size?", "inputs": fields}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["Size {UserFillUp:0@size}"]}, []),
    )
    client = native(server, await server.agent(dsl))
    run = (await client.post("/runs", json={})).json()
    await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 42, "pin": "4711"}})
    second = (await client.post("/runs", json={"query": "again", "session_id": run["session_id"]})).json()
    assert second["status"] == "waiting"
    file = await client.get(f"/sessions/{run['session_id']}/run-file")
    record = orjson.loads(file.text.partition('id="record">')[2].partition("</script>")[0])
    shown = [(row["at"], row["role"], record["values"][row["text"]]) for row in record["history"]]
    assert shown == [
        (0, "assistant", "Which size?"),
        (1, "user", "Size: 42\nCode: ***"),
        (2, "assistant", "Size 42"),
        (3, "user", "again"),
        (3, "assistant", "Which size?"),
    ]
    assert "4711" not in file.text
