from pathlib import Path
from typing import Any

from ragflow_lg.server.http.shared.turn_sessions import NO_ACCESS
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, ECHO, FORM, MODEL, AppServer, canvas, says, start_app

MISSING = "0" * 32


async def test_a_session_is_created_listed_and_deleted(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    created = await server.post(f"/agents/{agent_id}/sessions?user_id=ada", {"name": "First"})
    row = created["data"]
    assert (created["code"], "message" in created) == (0, False)
    assert (row["agent_id"], row["user_id"], row["name"], row["source"]) == (agent_id, "ada", "First", "agent")
    assert row["message"] == [{"role": "assistant", "content": "Hi there!"}]
    assert (row["dialog_id"], "reference" in row, row["dsl"]) == (agent_id, False, ECHO)
    await server.ask(agent_id, "ping", session_id=row["id"])
    listed = await server.get(f"/agents/{agent_id}/sessions?dsl=false")
    assert (listed["total"], "dsl" in listed["data"][0]) == (1, False)
    messages = listed["data"][0]["message"]
    assert [(m["role"], m["content"]) for m in messages] == [
        ("assistant", "Hi there!"),
        ("user", "ping"),
        ("assistant", "You said ping"),
    ]
    assert ["reference" in m for m in messages] == [False, False, True]
    assert (listed["data"][0]["round"], len(messages[1]["id"])) == (1, 32)
    old = await server.client.get(f"/agents/{agent_id}/sessions", headers={"X-RAGFlow-Compat": "0.24"})
    assert len(old.json()["data"][0]["messages"]) == 3
    raw = (await server.get(f"/agents/{agent_id}/sessions/{row['id']}"))["data"]
    assert (raw["dialog_id"], raw["reference"]) == (agent_id, [{"chunks": {}, "doc_aggs": {}}])
    assert (await server.delete(f"/agents/{agent_id}/sessions/{row['id']}")) == {
        "code": 0,
        "message": "success",
        "data": 1,
    }
    gone = await server.get(f"/agents/{agent_id}/sessions/{row['id']}")
    assert gone == {"code": 102, "message": "Session not found!"}


async def test_the_messages_of_a_session_have_no_thinking_without_an_opening_tag(server: AppServer) -> None:
    thought = "Let me think.\n</think>\n\n"
    server.model.replies += [Reply(f"{thought}{text}") for text in ("Yes.", "No.", "So.")]
    agent_id = await server.agent(MODEL)
    session = await server.session(agent_id)
    assert (await server.ask(agent_id, "one", session_id=session))["data"]["data"]["content"].strip() == "Yes."
    await server.stream(agent_id, "two", session_id=session)
    openai = {"model": "m", "messages": [{"role": "user", "content": "three"}], "stream": False}
    await server.client.post(f"/agents_openai/{agent_id}/chat/completions", json={**openai, "session_id": session})
    row = (await server.get(f"/agents/{agent_id}/sessions/{session}"))["data"]
    assert [m["content"].strip() for m in row["message"][1:]] == ["one", "Yes.", "two", "No.", "three", "So."]
    assert "Let me think" not in str(await server.get(f"/agents/{agent_id}/sessions"))


async def test_a_page_of_sessions_omits_large_canvases(server: AppServer) -> None:
    large = says("x" * 500_000)
    agent_id = await server.agent(large)
    await server.client.put(f"/agents/{agent_id}", json={"dsl": ECHO})
    path, small = f"/agents/{agent_id}/sessions", await server.session(agent_id)
    listed = (await server.get(path))["data"]
    assert [row["dsl"] for row in listed] == [ECHO]
    await server.client.put(f"/agents/{agent_id}", json={"dsl": large})
    for _ in range(9):
        await server.session(agent_id, name="Large")
    page = await server.client.get(f"{path}?page_size=8&desc=false&orderby=create_time")
    assert [row["dsl"] == (ECHO if row["id"] == small else large) for row in page.json()["data"]] == [True] * 8
    whole = await server.client.get(f"{path}?page_size=100")
    assert ["dsl" in row for row in whole.json()["data"]] == [False] * 10
    assert (await server.get(f"{path}/{small}"))["data"]["dsl"] == ECHO


async def test_deleted_sessions(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    one, two, three = [await server.session(agent_id) for _ in range(3)]
    path = f"/agents/{agent_id}/sessions"

    async def delete(body: object) -> dict[str, object]:
        return (await server.client.request("DELETE", path, json=body)).json()

    assert (await delete({}), await delete({"ids": None})) == ({"code": 0}, {"code": 0})
    partly = await delete({"ids": [one, one, MISSING]})
    assert partly["message"] == "Partially deleted 1 sessions with 2 errors"
    assert partly["data"] == {
        "success_count": 1,
        "errors": [f"The agent doesn't own the session {MISSING}", f"Duplicate session ids: {one}"],
    }
    assert ((await delete({"ids": [MISSING]}))["code"], await server.delete(f"{path}?ids={two}")) == (102, {"code": 0})
    for body in ({"ids": [1]}, {"ids": {"id": three}}, {"ids": ","}):
        assert (await delete(body))["code"] == 101, body
    assert (await server.get(path))["data"][0]["id"] == three
    assert (await delete({"ids": f"{three},{await server.session(agent_id)}"}), (await server.get(path))["total"]) == (
        {"code": 0},
        0,
    )
    await server.session(agent_id)
    assert (await delete({"ids": None, "delete_all": True}), (await server.get(path))["total"]) == ({"code": 0}, 0)
    path = f"/agents/{await server.agent(ECHO)}/sessions/{MISSING}"
    assert (await server.delete(path)) == (await server.get(path)) == {"code": 102, "message": "Session not found!"}


async def test_sessions_keep_their_version(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    old = await server.session(agent_id)
    await server.client.put(f"/agents/{agent_id}", json={"release": True})
    await server.client.put(f"/agents/{agent_id}", json={"dsl": FORM})
    sessions = (old, await server.session(agent_id, release=True), await server.session(agent_id))
    events = [(await server.ask(agent_id, "x", session_id=id_))["data"]["event"] for id_ in sessions]
    assert events == ["message_end", "message_end", "user_inputs"]


async def test_lists_are_filtered_and_limited_to_the_tenant(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    id_ = await server.session(agent_id, exp_user_id="eve", name="Hers")
    own = await server.session(agent_id, user_id="ada", name="Own")
    turn = await server.ask(agent_id, "ping", user_id="ada")
    await server.client.delete(f"/agents/{agent_id}/sessions/{await server.session(agent_id)}")
    path = f"/agents/{agent_id}/sessions"
    assert (await server.get(f"{path}?exp_user_id=eve"))["data"] == [{"id": id_, "name": "Hers"}]
    hers = (await server.get(f"{path}?exp_user_id=ada"))["data"]
    assert {row["id"]: row["name"] for row in hers} == {own: "Own", turn["data"]["session_id"]: "ping"}
    for query, total in (("from_date=2020-01-01", 3), ("to_date=2020-01-01", 0), ("from_date=soon", 3)):
        assert (await server.get(f"{path}?{query}"))["total"] == total
    other = {"Authorization": await server.new_key("other")}
    for method in ("GET", "POST", "DELETE"):
        answer = (await server.client.request(method, path, headers=other)).json()
        assert answer == {"code": 103, "message": NO_ACCESS, "data": False}
    old = await server.client.get(path, headers={**other, "X-RAGFlow-Compat": "0.24"})
    assert old.json() == {"code": 102, "message": "Agent not found."}
    theirs = (await server.post("/agents", {"title": "T", "dsl": ECHO}, headers=other))["data"]
    assert (await server.client.get(f"/agents/{theirs['id']}/sessions/{id_}", headers=other)).json()["code"] == 102
    silent = await server.agent(canvas(("begin", "Begin", {"mode": "task", "prologue": "Hm"}, [])), "Task")
    assert (await server.post(f"/agents/{silent}/sessions"))["data"]["message"] == []


async def test_only_a_session_created_before_its_question_begins_with_the_prologue(server: AppServer) -> None:
    agent_id = await server.agent(ECHO, "Parrot")
    turn = await server.ask(agent_id, "ping")
    row = (await server.get(f"/agents/{agent_id}/sessions/{turn['data']['session_id']}"))["data"]
    assert [message["content"] for message in row["message"]] == ["ping", "You said ping"]
    assert (row["source"], row["version_title"], len(row["reference"])) == ("workflow", "Parrot", 1)
    assert (await server.get(f"/agents/{agent_id}/sessions?dsl=false"))["data"][0]["version_title"] == "Parrot"
    created = (await server.post(f"/agents/{agent_id}/sessions"))["data"]
    assert (created["message"][0]["content"], created["version_title"]) == ("Hi there!", "Parrot")


async def test_the_sources_of_a_stored_session_have_ragflows_shape(tmp_path: Path) -> None:
    replies = [Reply(chunks=["Rice needs water [ID:61]."])]
    async with start_app(tmp_path, replies, knowledge=FakeKnowledge()) as server:
        agent_id = await server.agent(CITING)
        session = await server.session(agent_id)
        cited = (await server.ask(agent_id, "rice", session_id=session))["data"]["data"]["reference"]
        assert cited["chunks"]["61"]["document_name"] == "guide.pdf"
        assert (await server.get(f"/agents/{agent_id}/sessions/{session}"))["data"]["reference"] == [cited]
        listed = (await server.get(f"/agents/{agent_id}/sessions"))["data"][0]
        assert [chunk["citation_id"] for chunk in listed["message"][2]["reference"]] == list(cited["chunks"])


async def test_lists_of_older_clients_and_of_users_are_long(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    for _ in range(3):
        await server.session(agent_id)
    for path in ("/agents", f"/agents/{agent_id}/sessions"):
        assert await server.get(f"{path}?page_size=1000") == {"code": 101, "message": "page_size is at most 100."}
        for compat in ("0.24", "0.25.1"):
            answer = await server.get(f"{path}?page_size=1000", headers={"X-RAGFlow-Compat": compat})
            rows = answer["data"]["canvas"] if isinstance(answer["data"], dict) else answer["data"]
            assert (answer["code"], len(rows)) == (0, 1 if path == "/agents" else 3)
    names = [str(number) for number in range(31)]
    for name in names:
        await server.session(agent_id, exp_user_id="eve", name=name)
    answer = await server.get(f"/agents/{agent_id}/sessions?exp_user_id=eve&page=2&page_size=10")
    assert ({row["name"] for row in answer["data"]}, answer["total"]) == (set(names), 31)


async def test_a_session_shows_its_state(server: AppServer) -> None:
    agent = await server.agent(ECHO)
    session = await server.session(agent, user_id="anna")
    assert (await server.get(f"/agents/{agent}/sessions/{session}"))["data"]["dsl"]["components"] == ECHO["components"]
    await server.ask(agent, "hi", session_id=session)
    shown = (await server.get(f"/agents/{agent}/sessions/{session}"))["data"]["dsl"]
    assert ([entry[0] for entry in shown["history"]], shown["globals"]["sys.query"]) == (["user", "assistant"], "hi")
    assert shown["path"][0] == "begin"
    assert shown["components"]["Message:0"]["obj"]["params"]["outputs"]["content"]["value"] == "You said hi"
    assert (await server.get(f"/agents/{agent}"))["data"]["dsl"]["components"] == ECHO["components"]
    form = await server.agent(FORM)
    waiting = await server.session(form)
    await server.ask(form, "hi", session_id=waiting)
    assert (await server.get(f"/agents/{form}/sessions/{waiting}"))["data"]["dsl"]["path"] == ["UserFillUp:0"]
    broken: dict[str, Any] = {
        "components": {**ECHO["components"], "x": {"obj": {"component_name": "Gone", "params": {}}}}
    }
    fresh = await server.session(agent)
    await server.client.put(f"/agents/{agent}", json={"dsl": broken})
    answer = await server.get(f"/agents/{agent}/sessions/{fresh}")
    assert (answer["code"], answer["data"]["dsl"]["components"]) == (0, ECHO["components"])
