import asyncio
from unittest.mock import AsyncMock

import pytest

from ragflow_lg.base.errors import StreamError
from tests.fakes.canvas import canvas as fake_canvas
from tests.fakes.canvas import node
from tests.fakes.regions import loop, out
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, canvas, says
from tests.server.http.native.native_client import frames, native, play_one, problem

MISSING = "0" * 32
CHAIN = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["LLM:1"]),
    ("LLM:1", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{LLM:0@content}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:1@content}"]}, []),
)


async def test_a_run_is_started_and_shown(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    async with native(server, agent_id) as client:
        response = await client.post("/runs", json={"query": "ping", "user_id": "ada", "session_name": "First"})
        run = response.json()
        assert response.status_code == 200
        assert (run["status"], run["answer"], run["agent_id"], run["pauses"]) == (
            "succeeded",
            "You said ping",
            agent_id,
            [],
        )
        assert run["nodes"] == 2
        assert (await client.get(f"/runs/{run['id']}")).json() == run
        again = (await client.post("/runs", json={"query": "pong", "session_id": run["session_id"]})).json()
        assert again["session_id"] == run["session_id"]
        listed = (await client.get(f"/runs?session_id={run['session_id']}&page_size=1")).json()
        assert (listed["total"], [row["id"] for row in listed["runs"]]) == (2, [again["id"]])
        session = (await client.get(f"/sessions/{run['session_id']}")).json()
        assert (session["name"], session["user_id"], session["turns"]) == ("First", "ada", 2)
        assert [message["content"] for message in session["messages"]] == [
            "ping",
            "You said ping",
            "pong",
            "You said pong",
        ]


async def test_a_stream_has_ids_and_resumes_without_loss(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=list("abcdef"))]
    client = native(server, await server.agent(MODEL))
    answer = await client.post("/runs/stream", json={"query": "hi"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("retry: 1000\n\n")
    events = frames(answer.text)
    run_id = events[0][2]["run_id"]
    assert [id_ for id_, _, _ in events] == [*(f"{run_id}:{n}" for n in range(1, len(events))), ""]
    assert (events[0][1], events[-1][1], events[-1][2]["error"]) == ("workflow_started", "end", None)
    assert (events[-1][2]["run"]["status"], events[-1][2]["run"]["answer"]) == ("succeeded", "abcdef")
    path = f"/runs/{run_id}/events"
    assert frames((await client.get(path)).text) == events
    for cut in (1, 4, len(events) - 1):
        rest = await client.get(f"{path}?from=1", headers={"Last-Event-ID": events[cut - 1][0]})
        assert frames(rest.text) == events[cut:]
        assert frames((await client.get(f"{path}?from={cut}")).text) == events[cut - 1 :]
    assert problem(await client.get(f"{path}?from=x")) == (400, "event-unknown")
    assert problem(await client.get(f"{path}?from=999")) == (400, "event-unknown")
    assert problem(await client.get(path, headers={"Last-Event-ID": f"{MISSING}:1"})) == (400, "event-unknown")
    assert frames((await client.get(f"{path}?if_stored=true")).text) == events
    await server.app_state.run_manager.journal.aclose()
    assert problem(await client.get(path)) == (410, "events-gone")
    gone = await client.get(f"{path}?if_stored=true")
    assert (gone.status_code, gone.content) == (204, b"")


async def test_a_background_run_is_followed_and_cancelled(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["a", "b"], hangs=True), Reply("done")]
    client = native(server, await server.agent(MODEL))
    started = await client.post("/runs?mode=background", json={"query": "hi"})
    run = started.json()
    assert (started.status_code, run["status"]) == (202, "running")
    assert started.headers["location"].endswith(f"/runs/{run['id']}")
    following = asyncio.create_task(client.get(f"/runs/{run['id']}/events"))
    async with asyncio.timeout(10):
        while not (await client.get(f"/sessions/{run['session_id']}")).json()["is_busy"]:
            await asyncio.sleep(0.01)
    busy = await client.post("/runs", json={"query": "x", "session_id": run["session_id"]})
    assert problem(busy) == (409, "session-busy")
    assert problem(await client.delete(f"/sessions/{run['session_id']}")) == (409, "session-busy")
    assert problem(await client.post(f"/runs/{run['id']}/continue")) == (409, "session-busy")
    assert (await client.post(f"/runs/{run['id']}/cancel")).status_code == 202
    assert frames((await following).text)[-1][2]["run"]["status"] == "cancelled"
    continued = (await client.post(f"/runs/{run['id']}/continue")).json()
    assert (continued["status"], continued["parent_run_id"]) == ("succeeded", run["id"])
    assert problem(await client.post(f"/runs/{continued['id']}/continue")) == (409, "conflict")


async def test_a_form_is_answered_by_its_pause_id_or_cancelled(server: AppServer) -> None:
    client, run = await play_one(server, FORM)
    (pause,) = run["pauses"]
    assert (run["status"], pause["node"], pause["tips"]) == ("waiting", "UserFillUp:0", "Which size?")
    assert pause["answer_schema"]["properties"] == {"size": {"type": "integer", "title": "Size"}}
    assert (await client.get(f"/sessions/{run['session_id']}/pauses")).json() == [pause]
    refused = await client.post("/runs", json={"query": "42", "session_id": run["session_id"]})
    assert problem(refused) == (409, "session-waiting")
    path = f"/runs/{run['id']}/resume"
    for body, expected in (
        ({"answers": {pause["id"]: {"size": "big"}}}, (422, "answer-invalid")),
        ({"answers": {pause["id"]: {"colour": 1}}}, (422, "answer-invalid")),
        ({"answers": {MISSING: {"size": 1}}}, (422, "answer-invalid")),
        ({"answers": {"x": {"size": 1}}}, (422, "invalid")),
        ({"fields": {"colour": 1}}, (422, "answer-invalid")),
        ({}, (422, "invalid")),
    ):
        assert problem(await client.post(path, json=body)) == expected, body
    wrong = await client.post(path, json={"answers": {pause["id"]: {"size": "big"}}})
    assert list(wrong.json()["error"]["details"]["fields"]) == ["size"]
    done = (await client.post(path, json={"answers": {pause["id"]: {"size": 42}}})).json()
    assert (done["status"], done["answer"], done["parent_run_id"]) == ("succeeded", "Size 42", run["id"])
    assert (await client.get(f"/runs/{run['id']}")).json()["status"] == "answered"
    assert problem(await client.post(path, json={"fields": {"size": 1}})) == (409, "run-not-last")
    late = await client.post(f"/runs/{done['id']}/resume", json={"fields": {"size": 1}})
    assert (problem(late), (await client.get("/runs")).json()["total"]) == ((409, "run-not-waiting"), 2)
    run = (await client.post("/runs", json={})).json()
    assert (await client.post(f"/runs/{run['id']}/cancel")).json()["status"] == "cancelled"
    assert (await client.get(f"/sessions/{run['session_id']}/pauses")).json() == []
    assert (await client.post("/runs", json={"session_id": run["session_id"]})).json()["status"] == "waiting"


async def test_a_turn_is_rerun_from_a_node_with_changed_values(server: AppServer) -> None:
    client, run = await play_one(server, CHAIN, "one", "two", "three")
    assert run["answer"] == "two"
    body = {"node": "LLM:1", "changes": {"LLM:0@content": "edited"}, "session_name": "Again"}
    again = (await client.post(f"/runs/{run['id']}/rerun", json=body)).json()
    assert (again["answer"], again["parent_run_id"]) == ("three", run["id"])
    assert server.model.requests[-1][1].messages[-1]["content"] == "edited"
    session = (await client.get(f"/sessions/{again['session_id']}")).json()
    assert (session["name"], [message["content"] for message in session["messages"]]) == ("Again", ["hi", "three"])
    server.model.replies += [Reply("four"), Reply("five")]
    body = {"node": "LLM:0", "changes": {"sys.query": "Other?"}}
    other = (await client.post(f"/runs/{run['id']}/rerun", json=body)).json()
    assert server.model.requests[-2][1].messages[-1]["content"] == "Other?"
    session = (await client.get(f"/sessions/{other['session_id']}")).json()
    texts = [message["content"] for message in session["messages"]]
    assert (session["name"], texts, other["question"]) == ("↳ LLM:0: Other?", ["Other?", "five"], "Other?")
    for wrong in ({"node": "LLM:9"}, {"node": "LLM:1", "round": 3}, {"node": "LLM:1", "changes": {"env.nothing": 1}}):
        assert problem(await client.post(f"/runs/{run['id']}/rerun", json=wrong)) == (422, "place-unknown")


async def test_a_rerun_that_cannot_start_leaves_no_copy(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client, run = await play_one(server, CHAIN, "one", "two")
    begin = AsyncMock(side_effect=StreamError("Redis is away."))
    monkeypatch.setattr(server.app_state.run_manager.journal, "begin", begin)
    assert (await client.post(f"/runs/{run['id']}/rerun", json={"node": "LLM:1"})).status_code == 503
    sessions = (await client.get("/sessions")).json()["sessions"]
    assert [session["id"] for session in sessions] == [run["session_id"]]


async def test_a_node_in_a_loop_is_rerun_in_its_round(server: AppServer) -> None:
    model = node("LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]})
    looped = fake_canvas({"begin": node("Begin", {}, ["lp"]), **loop({"ask": model}), **out("done")})
    server.model.replies += [Reply(str(number)) for number in range(5)]
    client, run = await play_one(server, looped)
    assert (run["answer"], len(server.model.requests)) == ("done", 3)
    again = await client.post(f"/runs/{run['id']}/rerun", json={"node": "ask", "round": 1})
    assert (again.json()["status"], len(server.model.requests)) == ("succeeded", 5)
    names = [row["name"] for row in (await client.get("/sessions")).json()["sessions"]]
    assert sorted(names) == ["hi", "↳ ask: hi"]
    assert [row["question"] for row in (await client.get("/runs")).json()["runs"]] == ["hi", "hi"]
    history = (await client.get(f"/sessions/{run['session_id']}/history")).json()["moments"]
    assert {moment["region"]["id"] if moment["region"] else "" for moment in history} == {"", "lp"}
    assert {moment["round"] for moment in history if moment["region"]} >= {0, 1, 2}
    wrong = await client.post(f"/runs/{run['id']}/rerun", json={"node": "ask", "round": 7})
    assert problem(wrong) == (422, "place-unknown")


async def test_a_run_is_forked_where_it_waits_and_at_earlier_checkpoints(server: AppServer) -> None:
    client, run = await play_one(server, FORM)
    response = await client.post(f"/runs/{run['id']}/fork", json={"session_name": "Twin"})
    await client.post(f"/runs/{run['id']}/resume", json={"fields": {"size": 1}})
    fork = response.json()
    assert (response.status_code, fork["status"], fork["parent_run_id"]) == (201, "waiting", run["id"])
    assert (await client.post(f"/runs/{fork['id']}/resume", json={"fields": {"size": 7}})).json()["answer"] == "Size 7"
    session = (await client.get(f"/sessions/{fork['session_id']}")).json()
    assert [row["content"] for row in session["messages"]] == ["hi", "Which size?", "Size: 7", "Size 7"]
    first = (await client.get(f"/sessions/{run['session_id']}/history")).json()["moments"][-1]["checkpoint"]
    early = (await client.post(f"/runs/{run['id']}/fork", json={"checkpoint": first})).json()
    assert early["status"] == "interrupted"
    assert (await client.get(f"/sessions/{early['session_id']}")).json()["name"] == "↳ begin: hi"
    assert (await client.post(f"/runs/{early['id']}/continue")).json()["status"] == "waiting"
    answered = (await client.post(f"/runs/{run['id']}/fork", json={})).json()
    assert (answered["status"], answered["question"]) == ("interrupted", "hi")  # it asks again
    question = (await client.post(f"/runs/{answered['id']}/continue")).json()
    assert [pause["node"] for pause in question["pauses"]] == ["UserFillUp:0"]
    nowhere = await client.post(f"/runs/{run['id']}/fork", json={"checkpoint": "f" * 20})
    assert problem(nowhere) == (422, "place-unknown")
    assert "ragflow-lg" not in nowhere.json()["error"]["message"]


async def test_resume_from_depends_on_the_state_of_the_run(server: AppServer) -> None:
    client, run = await play_one(server, FORM)
    done = (await client.post("/runs", json={"resume_from": run["id"], "inputs": {"size": 3}})).json()
    assert (done["answer"], done["session_id"]) == ("Size 3", run["session_id"])
    twin = (await client.post("/runs", json={"resume_from": run["id"], "inputs": {"size": 4}})).json()
    assert (twin["answer"], twin["session_id"] != run["session_id"]) == ("Size 4", True)
    following = (await client.post("/runs", json={"resume_from": done["id"], "query": "again"})).json()
    assert (following["status"], following["session_id"]) == ("waiting", run["session_id"])
    both = await client.post("/runs", json={"resume_from": run["id"], "session_id": run["session_id"]})
    assert problem(both) == (422, "invalid")


async def test_a_failed_run_is_repeated_from_the_failed_node(server: AppServer) -> None:
    server.model.replies += [Reply("one"), Reply(error="down"), Reply("two")]
    client, run = await play_one(server, CHAIN)
    assert (run["status"], "down" in run["error"]) == ("failed", True)
    again = (await client.post("/runs", json={"resume_from": run["id"]})).json()
    assert (again["status"], again["answer"], len(server.model.requests)) == ("succeeded", "two", 3)


async def test_runs_of_other_tenants_are_not_found(server: AppServer) -> None:
    agent_id = await server.agent(FORM)
    async with native(server, agent_id) as client:
        run = (await client.post("/runs", json={})).json()
        other = await server.new_key("other")
        client.headers["Authorization"] = f"Bearer {other}"
        theirs = await server.post("/agents", {"title": "T", "dsl": FORM}, headers=client.headers)
        client.headers["Last-Event-ID"] = ""
        for agent in (agent_id, theirs["data"]["id"]):
            base = f"{server.url}/native/v1/agents/{agent}"
            for method, path in (
                ("GET", f"/runs/{run['id']}"),
                ("GET", f"/runs/{run['id']}/events"),
                ("POST", f"/runs/{run['id']}/resume"),
                ("POST", f"/runs/{run['id']}/continue"),
                ("POST", f"/runs/{run['id']}/rerun"),
                ("POST", f"/runs/{run['id']}/fork"),
                ("POST", f"/runs/{run['id']}/cancel"),
                ("GET", f"/sessions/{run['session_id']}"),
                ("GET", f"/sessions/{run['session_id']}/pauses"),
                ("GET", f"/sessions/{run['session_id']}/history"),
                ("PUT", f"/sessions/{run['session_id']}/version"),
                ("DELETE", f"/sessions/{run['session_id']}"),
                ("GET", f"/versions/{run['version_id']}"),
                ("DELETE", f"/versions/{run['version_id']}"),
            ):
                body = {"resume": {"fields": {"size": 1}}, "rerun": {"node": "x"}, "version": {"version": "draft"}}
                sent = body.get(path.rpartition("/")[2], {})
                answer = await client.request(method, base + path, json=sent if method != "GET" else None)
                assert problem(answer) == (404, "not-found"), (method, path)
            for sent in ({"session_id": run["session_id"]}, {"resume_from": run["id"]}):
                assert problem(await client.post(f"{base}/runs", json=sent)) == (404, "not-found")
        client.headers["Authorization"] = "Bearer ragflow-forged"
        assert problem(await client.get("/runs")) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", (400, "bad-request")),
        (b"[]", (422, "invalid")),
        (b"", (422, "invalid")),
        (b'{"query": 1}', (422, "invalid")),
        (b'{"question": "x"}', (422, "invalid")),
        (b'{"query": "\\ud800"}', (400, "bad-request")),
        (b'{"query": NaN}', (400, "bad-request")),
        (b'{"session_id": "' + b"x" * 300 + b'"}', (422, "invalid")),
        (b'{"session_id": "../../etc"}', (404, "not-found")),
        (b'{"version": "nothing"}', (404, "not-found")),
        (b'{"version": "published"}', (404, "not-found")),
    ],
)
async def test_hostile_bodies_are_refused(server: AppServer, body: bytes, expected: tuple[int, str]) -> None:
    client = native(server, await server.agent(ECHO))
    assert problem(await client.post("/runs", content=body, headers={"Content-Type": "application/json"})) == expected
    deep = await client.post("/runs", content=b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}")
    assert problem(deep) == (422, "invalid")
    untyped = await client.post("/runs", content=body or b"{}")
    assert "send the header `Content-Type: application/json`" in untyped.json()["error"]["message"]
    assert (await client.get("/sessions")).json()["total"] == 0


async def test_invalid_query_parameters_are_refused(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    assert problem(await client.post("/runs?mode=later", json={})) == (422, "invalid")
    assert problem(await client.post("/runs?on_disconnect=never", json={})) == (422, "invalid")
    assert (await client.post("/runs?on_disconnect=grace:1.5", json={"query": "\x00"})).status_code == 200
    assert problem(await client.get(f"/runs/{MISSING}")) == (404, "not-found")
    assert problem(await client.patch("/runs")) == (405, "method-not-allowed")
    assert problem(await client.get("/nothing")) == (404, "not-found")


TRIP = {"city": {"name": "City", "type": "line"}, "days": {"type": "integer", "optional": True}}
TASK = says("{begin@city}", {"mode": "task", "prologue": "", "inputs": TRIP})


async def test_the_greeting_form_and_schema_are_those_of_the_version(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    answer = (await client.get("/begin")).json()
    assert (answer["mode"], answer["prologue"], answer["fields"]) == ("conversational", "Hi there!", {})
    assert problem(await client.get("/begin?version=published")) == (404, "not-found")
    client = native(server, await server.agent(TASK))
    answer = (await client.get("/begin")).json()
    assert (answer["mode"], answer["prologue"], answer["fields"]) == ("task", "", TRIP)
    assert answer["inputs_schema"]["required"] == ["city"]
    run = (await client.post("/runs", json={"inputs": {"city": "Rome"}})).json()
    assert run["answer"] == "Rome"
    found = (await client.get("/sessions?keywords=Rom")).json()
    assert [row["id"] for row in found["sessions"]] == [run["session_id"]]
    assert (await client.get("/sessions?keywords=Oslo")).json()["total"] == 0
