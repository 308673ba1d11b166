from pathlib import Path
from typing import Any

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.turn_sessions import NO_ACCESS
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, ECHO, FORM, MODEL, canvas, start_app

MISSING = "0" * 32


async def test_a_session_is_created_listed_and_deleted(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        created = (await server.client.post(f"/agents/{agent_id}/sessions?user_id=ada", json={"name": "First"})).json()
        row = created["data"]
        assert (created["code"], "message" in created) == (0, False)
        assert (row["agent_id"], row["user_id"], row["name"], row["source"]) == (agent_id, "ada", "First", "agent")
        assert row["message"] == [{"role": "assistant", "content": "Hi there!"}]
        assert ("dialog_id" in row, "reference" in row, row["dsl"]) == (False, False, ECHO)
        await server.ask(agent_id, "ping", session_id=row["id"])
        listed = (await server.client.get(f"/agents/{agent_id}/sessions?dsl=false")).json()
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
        raw = (await server.client.get(f"/agents/{agent_id}/sessions/{row['id']}")).json()["data"]
        assert (raw["dialog_id"], raw["reference"]) == (agent_id, [{"chunks": {}, "doc_aggs": {}}])
        assert (await server.client.delete(f"/agents/{agent_id}/sessions/{row['id']}")).json() == {
            "code": 0,
            "message": "success",
            "data": 1,
        }
        gone = (await server.client.get(f"/agents/{agent_id}/sessions/{row['id']}")).json()
        assert gone == {"code": 102, "message": "Session not found!"}


async def test_the_messages_of_a_session_have_no_thinking_without_an_opening_tag(tmp_path: Path) -> None:
    thought = "Let me think.\n</think>\n\n"
    async with start_app(tmp_path, [Reply(f"{thought}{text}") for text in ("Yes.", "No.", "So.")]) as server:
        agent_id = await server.agent(MODEL)
        session = await server.session(agent_id)
        assert (await server.ask(agent_id, "one", session_id=session))["data"]["data"]["content"].strip() == "Yes."
        await server.stream(agent_id, "two", session_id=session)
        openai = {"model": "m", "messages": [{"role": "user", "content": "three"}], "stream": False}
        path = f"/agents_openai/{agent_id}/chat/completions"
        await server.client.post(path, json={**openai, "session_id": session})
        row = (await server.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]
        assert [m["content"].strip() for m in row["message"][1:]] == ["one", "Yes.", "two", "No.", "three", "So."]
        listed = (await server.client.get(f"/agents/{agent_id}/sessions")).json()
        assert "Let me think" not in str(listed)


async def test_a_page_of_sessions_omits_large_canvases(tmp_path: Path) -> None:
    large = canvas(("begin", "Begin", {}, ["Message:0"]), ("Message:0", "Message", {"content": ["x" * 500_000]}, []))
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(large)
        await server.client.put(f"/agents/{agent_id}", json={"dsl": ECHO})
        path, small = f"/agents/{agent_id}/sessions", await server.session(agent_id)
        listed = (await server.client.get(path)).json()["data"]
        assert [row["dsl"] for row in listed] == [ECHO]
        await server.client.put(f"/agents/{agent_id}", json={"dsl": large})
        for _ in range(9):
            await server.session(agent_id, name="Large")
        page = await server.client.get(f"{path}?page_size=8&desc=false&orderby=create_time")
        assert [row["dsl"] == (ECHO if row["id"] == small else large) for row in page.json()["data"]] == [True] * 8
        whole = await server.client.get(f"{path}?page_size=100")
        assert ["dsl" in row for row in whole.json()["data"]] == [False] * 10
        data = (await server.client.get(f"{path}/{small}")).json()["data"]
        assert data["dsl"] == ECHO


async def test_several_sessions_are_deleted_at_once(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        one, two, three = [await server.session(agent_id) for _ in range(3)]
        path = f"/agents/{agent_id}/sessions"

        async def delete(body: object) -> dict[str, object]:
            return (await server.client.request("DELETE", path, json=body)).json()

        assert await delete({}) == {"code": 0}
        assert await delete({"ids": None}) == {"code": 0}
        partly = (await delete({"ids": [one, one, MISSING]}))["data"]
        assert partly == {
            "success_count": 1,
            "errors": [f"The agent doesn't own the session {MISSING}", f"Duplicate session ids: {one}"],
        }
        assert (await delete({"ids": [MISSING]}))["code"] == 102
        assert (await server.client.delete(f"{path}?ids={two}")).json() == {"code": 0}
        assert (await server.client.get(path)).json()["data"][0]["id"] == three
        assert await delete({"ids": None, "delete_all": True}) == {"code": 0}
        assert (await server.client.get(path)).json()["total"] == 0


async def test_sessions_keep_their_version(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        refused = (await server.client.post(f"/agents/{agent_id}/sessions", json={"release": True})).json()
        assert refused["code"] == 102
        old = await server.session(agent_id)
        await server.client.put(f"/agents/{agent_id}", json={"release": True})
        await server.client.put(f"/agents/{agent_id}", json={"dsl": FORM})
        published, draft = await server.session(agent_id, release=True), await server.session(agent_id)
        assert [
            (await server.ask(agent_id, "x", session_id=id_))["data"]["event"] for id_ in (old, published, draft)
        ] == ["message_end", "message_end", "user_inputs"]


async def test_lists_are_filtered_and_limited_to_the_tenant(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        id_ = await server.session(agent_id, exp_user_id="eve", name="Hers")
        own = await server.session(agent_id, user_id="ada", name="Own")
        turn = await server.ask(agent_id, "ping", user_id="ada")
        await server.client.delete(f"/agents/{agent_id}/sessions/{await server.session(agent_id)}")
        path = f"/agents/{agent_id}/sessions"
        assert (await server.client.get(f"{path}?exp_user_id=eve")).json()["data"] == [{"id": id_, "name": "Hers"}]
        hers = (await server.client.get(f"{path}?exp_user_id=ada")).json()["data"]
        assert {row["id"]: row["name"] for row in hers} == {own: "Own", turn["data"]["session_id"]: "ping"}
        for query, total in (("from_date=2020-01-01", 3), ("to_date=2020-01-01", 0), ("from_date=soon", 3)):
            assert (await server.client.get(f"{path}?{query}")).json()["total"] == total
        other = {"Authorization": await KeyRepository(server.app_state.database).create("other", 1)}
        for method in ("GET", "POST", "DELETE"):
            answer = (await server.client.request(method, path, headers=other)).json()
            assert answer == {"code": 103, "message": NO_ACCESS, "data": False}
        old = await server.client.get(path, headers={**other, "X-RAGFlow-Compat": "0.24"})
        assert old.json() == {"code": 102, "message": "Agent not found."}
        theirs = (await server.client.post("/agents", json={"title": "T", "dsl": ECHO}, headers=other)).json()["data"]
        stolen = await server.client.get(f"/agents/{theirs['id']}/sessions/{id_}", headers=other)
        assert stolen.json()["code"] == 102
        silent = await server.agent(canvas(("begin", "Begin", {"mode": "task", "prologue": "Hm"}, [])), "Task")
        assert (await server.client.post(f"/agents/{silent}/sessions")).json()["data"]["message"] == []


async def test_only_a_session_created_before_its_question_begins_with_the_prologue(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO, "Parrot")
        turn = await server.ask(agent_id, "ping")
        row = (await server.client.get(f"/agents/{agent_id}/sessions/{turn['data']['session_id']}")).json()["data"]
        assert [message["content"] for message in row["message"]] == ["ping", "You said ping"]
        assert (row["source"], row["version_title"], len(row["reference"])) == ("workflow", "Parrot", 1)
        listed = (await server.client.get(f"/agents/{agent_id}/sessions?dsl=false")).json()["data"]
        assert listed[0]["version_title"] == "Parrot"
        created = (await server.client.post(f"/agents/{agent_id}/sessions")).json()["data"]
        assert (created["message"][0]["content"], created["version_title"]) == ("Hi there!", "Parrot")


async def test_the_sources_of_a_stored_session_have_ragflows_shape(tmp_path: Path) -> None:
    replies = [Reply(chunks=["Rice needs water [ID:61]."])]
    async with start_app(tmp_path, replies, knowledge=FakeKnowledge()) as server:
        agent_id = await server.agent(CITING)
        session = await server.session(agent_id)
        answer = (await server.ask(agent_id, "rice", session_id=session))["data"]["data"]
        cited = answer["reference"]
        assert cited["chunks"]["61"]["document_name"] == "guide.pdf"
        row = (await server.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]
        assert row["reference"] == [cited]
        listed = (await server.client.get(f"/agents/{agent_id}/sessions")).json()["data"][0]
        assert [chunk["citation_id"] for chunk in listed["message"][2]["reference"]] == list(cited["chunks"])


async def test_clients_of_older_generations_get_long_pages(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        for _ in range(3):
            await server.session(agent_id)
        for path in ("/agents", f"/agents/{agent_id}/sessions"):
            refused = (await server.client.get(f"{path}?page_size=1000")).json()
            assert refused == {"code": 101, "message": "page_size is at most 100."}
            for compat in ("0.24", "0.25.1"):
                headers = {"X-RAGFlow-Compat": compat}
                answer = (await server.client.get(f"{path}?page_size=1000", headers=headers)).json()
                rows = answer["data"]["canvas"] if isinstance(answer["data"], dict) else answer["data"]
                assert (answer["code"], len(rows)) == (0, 1 if path == "/agents" else 3)


async def test_deleting_a_missing_session_says_what_showing_it_says(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        path = f"/agents/{await server.agent(ECHO)}/sessions/{MISSING}"
        refused = {"code": 102, "message": "Session not found!"}
        assert (await server.client.delete(path)).json() == (await server.client.get(path)).json() == refused


async def test_the_list_of_a_user_has_no_pages(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(ECHO)
        names = [str(number) for number in range(31)]
        for name in names:
            await server.session(agent_id, exp_user_id="eve", name=name)
        answer = (await server.client.get(f"/agents/{agent_id}/sessions?exp_user_id=eve&page=2&page_size=10")).json()
        assert ({row["name"] for row in answer["data"]}, answer["total"]) == (set(names), 31)


async def test_a_session_shows_its_state(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        session = await server.session(agent, user_id="anna")
        fresh = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert fresh["components"] == ECHO["components"]
        await server.ask(agent, "hi", session_id=session)
        shown = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert [entry[0] for entry in shown["history"]] == ["user", "assistant"]
        assert shown["globals"]["sys.query"] == "hi"
        assert shown["path"][0] == "begin"
        outputs = shown["components"]["Message:0"]["obj"]["params"]["outputs"]
        assert outputs["content"]["value"] == "You said hi"
        stored = (await server.client.get(f"/agents/{agent}")).json()["data"]["dsl"]
        assert stored["components"] == ECHO["components"]


async def test_a_waiting_session_begins_its_path_with_the_form(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(FORM)
        session = await server.session(agent)
        await server.ask(agent, "hi", session_id=session)
        shown = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert shown["path"] == ["UserFillUp:0"]


async def test_a_canvas_that_cannot_run_is_shown_without_state(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        session = await server.session(agent)
        broken: dict[str, Any] = {
            "components": {**ECHO["components"], "x": {"obj": {"component_name": "Gone", "params": {}}}}
        }
        await server.client.put(f"/agents/{agent}", json={"dsl": broken})
        answer = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()
        assert answer["code"] == 0
        assert answer["data"]["dsl"]["components"] == ECHO["components"]
