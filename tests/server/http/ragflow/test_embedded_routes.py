"""Embedded pages: what visitors, who can read the key of a page, may see and do."""

import asyncio
from typing import Any

import orjson
import pytest
from httpx import Response

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.http.shared.auth import VISITOR_HEADER
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, canvas, frames, says
from tests.server.waiting import wait_while

SECRET = "internal-host.example:8443 key-4711"

PRIVATE = canvas(
    ("begin", "Begin", {}, ["StringTransform:0"]),
    ("StringTransform:0", "StringTransform", {"method": "merge", "script": f"{SECRET} {{sys.query}}"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["You said {sys.query}"]}, []),
)
"""A node has a secret in its outputs, which no Message shows."""

BROKEN = canvas(("begin", "Begin", {}, ["Key4711:0"]))
"""It has an edge to a node that does not exist."""


async def test_visitors_receive_neither_inputs_nor_outputs_of_nodes(server: AppServer) -> None:
    beta = await server.page()
    path = f"/agentbots/{await server.agent(PRIVATE)}/completions"
    text = (await server.client.post(path, json={"query": "Hi"}, headers=beta)).text
    received = frames(text)
    assert {frame["event"] for frame in received} == {"message", "message_end", "workflow_finished"}
    assert received[-1]["data"] == {"outputs": {}}
    answer = await server.client.post(path, json={"query": "Hi", "stream": False}, headers=beta)
    data = answer.json()["data"]
    assert (data["event"], data["data"]["content"]) == ("workflow_finished", "You said Hi")
    assert "4711" not in text + answer.text


async def test_visitors_receive_the_form_that_a_turn_waits_at(server: AppServer) -> None:
    beta = await server.page()
    path = f"/agentbots/{await server.agent(FORM)}/completions"
    received = frames((await server.client.post(path, json={"query": "Hi"}, headers=beta)).text)
    assert {frame["event"] for frame in received} <= {"user_inputs", "workflow_finished"}
    form = next(frame for frame in received if frame["event"] == "user_inputs")
    assert form["data"]["tips"] == "Which size?"
    body = {"query": "", "session_id": form["session_id"], "stream": False, "inputs": {"size": {"value": 4}}}
    assert (await server.post(path, body, headers=beta))["data"]["data"]["content"] == "Size 4"
    waiting = await server.post(path, {"query": "Hi", "stream": False}, headers=beta)
    assert (waiting["data"]["event"], waiting["data"]["data"]["tips"]) == ("user_inputs", "Which size?")


async def test_visitors_answer_an_open_form_once_and_learn_of_no_node(server: AppServer) -> None:
    beta, agent = await server.page(), await server.agent(FORM)
    path, base = f"/agentbots/{agent}/completions", f"{server.url}/native/v1/agents/{agent}/sessions"
    session = (await server.post(path, {"query": "Hi", "stream": False}, headers=beta))["data"]["session_id"]
    (pause,) = (await server.client.get(f"{base}/{session}/pauses")).json()

    async def answer(id_: str, value: Any) -> Any:
        body = {"session_id": session, "stream": False, "pauses": [id_], "inputs": {"size": {"value": value}}}
        return await server.post(path, body, headers=beta)

    unknown, wrong = await answer("f" * 32, 4), await answer(pause["id"], "big")
    assert unknown["message"] == f"The session is not waiting for {'f' * 32}."
    assert wrong["message"] == "'Size' (size) should be a whole number, not 'big'."
    assert (await answer(pause["id"], 4))["data"]["data"]["content"] == "Size 4"
    late = await answer(pause["id"], 4)
    assert (late["code"], late["message"]) == (101, f"The session is not waiting for {pause['id']}.")
    whole = (await server.client.get(f"{base}/{session}")).json()
    assert [each["content"] for each in whole["messages"]] == ["Hi", "Which size?", "Size: 4", "Size 4"]


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_visitors_do_not_receive_the_texts_of_errors(server: AppServer, *, is_streamed: bool) -> None:
    server.model.replies += [Reply(error=SECRET, repeat=True)]
    beta = await server.page()
    path = f"/agentbots/{await server.agent(MODEL)}/completions"
    answer = await server.client.post(path, json={"query": "Hi", "stream": is_streamed}, headers=beta)
    last = frames(answer.text)[-1] if is_streamed else answer.json()
    assert (last["code"], last["message"]) == (500, "The agent failed. Its owner can see the reason.")
    assert "4711" not in answer.text


async def test_visitors_do_not_receive_the_faults_of_a_canvas(server: AppServer) -> None:
    beta = await server.page()
    agent_id = await server.agent(BROKEN)
    for method, path in (("POST", "completions"), ("GET", "inputs")):
        answer = await server.client.request(method, f"/agentbots/{agent_id}/{path}", headers=beta)
        assert answer.json()["message"] == "The agent failed. Its owner can see the reason."


async def test_visitors_receive_no_tool_calls(server: AppServer) -> None:
    beta = await server.page()
    agent_id = await server.agent(ECHO)
    answer = (await server.ask(agent_id))["data"]
    run: str = answer["message_id"]
    trace: Trace = [{"component_id": "LLM:0", "trace": [{"result": SECRET}]}]
    await server.app_state.store.traces.put(RunRecord(run, answer["session_id"]), trace)
    for path in (
        f"/agentbots/{agent_id}/logs/{run}",
        f"{server.url}/v1/canvas/trace?canvas_id={agent_id}&message_id={run}",
    ):
        assert (await server.get(path, headers=beta))["data"] == {}
    assert SECRET in (await server.client.get(f"/agents/{agent_id}/logs/{run}")).text


async def test_visitors_run_the_published_version(server: AppServer) -> None:
    draft = orjson.loads(orjson.dumps(ECHO).replace(b"You said", b"Draft:"))
    beta = await server.page()
    agent_id = await server.agent(ECHO)
    path = f"/agentbots/{agent_id}/completions"

    async def ask(**fields: Any) -> str:
        answer = await server.post(path, {"query": "Hi", "stream": False, **fields}, headers=beta)
        return answer["data"]["data"]["content"] if answer["code"] == 0 else answer["message"]

    assert await ask() == "You said Hi"  # nothing is published yet
    assert "no published version" in await ask(release=True)
    await server.client.put(f"/agents/{agent_id}", json={"title": "Helper", "dsl": ECHO, "release": True})
    await server.client.put(f"/agents/{agent_id}", json={"title": "Helper", "dsl": draft})
    assert [await ask(), await ask(release=False)] == ["You said Hi", "You said Hi"]
    assert (await server.ask(agent_id))["data"]["data"]["content"] == "Draft: hello"


async def test_visitors_cannot_import_or_fill_the_store(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_LIMITS, "max_page_files", 2)
    monkeypatch.setitem(FILE_LIMITS, "max_page_bytes", 100)
    beta = await server.page()
    path = f"/agents/{await server.agent(ECHO)}/upload"
    fetched = await server.client.post(f"{path}?url=http://wiki.example/", headers=beta)
    assert "cannot import addresses" in fetched.json()["message"]

    async def upload(size: int) -> int:
        files = {"file": ("notes.txt", b"x" * size, "text/plain")}
        return (await server.client.post(path, files=files, headers=beta)).status_code

    assert [await upload(size) for size in (101, 40, 40, 1)] == [429, 200, 200, 429]


async def test_a_key_opens_only_its_agents_until_it_expires(server: AppServer) -> None:
    mine, other = await server.agent(ECHO, "Mine"), await server.agent(ECHO, "Other")
    now_ms = server.app_state.now_ms()
    scoped = await server.new_key(kind="beta", agents=[mine], expire_ms=now_ms + 3_600_000)
    expired = await server.new_key(kind="beta", expire_ms=now_ms)
    files = {"file": ("notes.txt", b"x", "text/plain")}
    both = await server.new_key(kind="beta")

    async def upload(agent_id: str, key: str) -> str:
        headers = {"Authorization": f"Bearer {key}"}
        uploaded = await server.client.post(f"/agents/{agent_id}/upload", files=files, headers=headers)
        return uploaded.json()["data"]["id"]

    ids = [await upload(mine, scoped), await upload(other, both)]

    async def codes(key: str, agent_id: str, file_id: str) -> list[int]:
        send, headers = server.client.request, {"Authorization": f"Bearer {key}"}
        body = {"query": "Hi", "stream": False}
        answers = [
            await send("GET", f"/agentbots/{agent_id}/inputs", headers=headers),
            await send("POST", f"/agentbots/{agent_id}/completions", headers=headers, json=body),
            await send("GET", f"/agentbots/{agent_id}/logs/run", headers=headers),
            await send("POST", f"/agents/{agent_id}/upload", headers=headers, files=files),
            await send("GET", f"/agents/download?id={file_id}", headers=headers),
            await send("GET", f"/agents/attachments/{file_id}/preview", headers=headers),
        ]
        return [0 if answer.text == "x" else answer.json()["code"] for answer in answers]

    assert await codes(scoped, mine, ids[0]) == [0] * 6
    assert await codes(scoped, other, ids[1]) == [102, 102, 102, 103, 102, 102]
    unknown = await codes("beta-unknown", mine, ids[0])
    assert await codes(expired, mine, ids[0]) == unknown
    assert 0 not in unknown


async def test_turns_of_a_page_read_only_files_of_its_agent(server: AppServer) -> None:
    reads = says("Files: {sys.files}")
    mine, other, page = await server.agent(reads), await server.agent(reads), await server.page()
    files: dict[str, Any] = {}
    for agent_id in (mine, other):
        content = {"file": ("a.txt", f"text of {agent_id}".encode())}
        uploaded = await server.client.post(f"/agents/{agent_id}/upload", files=content, headers=page)
        files[agent_id] = uploaded.json()["data"]
    path, body = f"/agentbots/{mine}/completions", {"query": "Hi", "stream": False}
    own, foreign = [(await server.post(path, {**body, "files": [files[id_]]}, headers=page)) for id_ in (mine, other)]
    assert f"text of {mine}" in own["data"]["data"]["content"]
    assert (foreign["code"], f"text of {other}" in str(foreign)) == (101, False)
    assert f"text of {other}" in (await server.ask(mine, files=[files[other]]))["data"]["data"]["content"]


async def test_visitors_continue_only_their_own_turns_after_they_have_stopped(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Let me"], hangs=True), Reply("Fine.")]
    beta, agent = await server.page(), await server.agent(MODEL)
    opened = [await server.client.get(f"/agentbots/{agent}/inputs", headers=beta) for _ in range(2)]
    one, other = ({**beta, VISITOR_HEADER: each.headers[VISITOR_HEADER]} for each in opened)
    path = f"/agentbots/{agent}/completions"
    stopped = asyncio.create_task(server.client.post(path, json={"query": "Hi"}, headers=one))
    await wait_while(lambda: not server.model.is_hanging)
    (session,) = (await server.get(f"/agents/{agent}/sessions"))["data"]
    await server.post(f"/tasks/{session['id']}/cancel")
    body = {"resume_from": frames((await stopped).text)[0]["message_id"], "stream": False}
    refused = await server.client.post(path, json=body, headers=other)
    assert (refused.json()["code"], refused.json()["message"]) == (102, "Session not found!")
    continued = (await server.post(path, body, headers=one))["data"]
    assert (continued["data"]["content"], continued["session_id"]) == ("Fine.", session["id"])


async def test_visitors_read_only_their_own_sessions(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.model.replies += [Reply("<think>Hm.</think>Fine."), Reply(error=SECRET, repeat=True)]
    beta, agent, form = await server.page(), await server.agent(MODEL), await server.agent(FORM)
    opened = [await server.client.get(f"/agentbots/{agent}/inputs", headers=beta) for _ in range(2)]
    one, other = ({**beta, VISITOR_HEADER: each.headers[VISITOR_HEADER]} for each in opened)
    guest = server.stranger()

    async def read(agent: str, session: str, headers: dict[str, str]) -> Response:
        path = f"{server.url}/native/v1/agents/{agent}/sessions/{session}/visit"
        return await guest.get(path, headers=headers)

    begun = await server.post(f"/agentbots/{agent}/completions", {"query": "Hi", "stream": False}, headers=one)
    session = begun["data"]["session_id"]
    await server.post(
        f"/agentbots/{agent}/completions", {"query": "Yes", "session_id": session, "stream": False}, headers=one
    )
    read_by_one = await read(agent, session, one)
    shown = read_by_one.json()
    assert [(each["role"], each["content"]) for each in shown["messages"]][:2] == [
        ("user", "Hi"),
        ("assistant", "Fine."),
    ]
    failure = "The agent failed. Its owner can see the reason."
    assert [(run["status"], run["error"]) for run in shown["runs"]] == [("failed", failure), ("succeeded", "")]
    assert "4711" not in read_by_one.text
    places = [(session, other), (session, beta), ("0" * 32, one)]
    answers = [await read(agent, *place) for place in places]
    answers += [await read(form, session, one), await read(agent, session, await server.page(agents=[form]))]
    assert [answer.status_code for answer in answers] == [404] * 5
    assert (await read(agent, session, {})).status_code == 401
    asked = await server.post(f"/agentbots/{form}/completions", {"query": "Hi", "stream": False}, headers=one)
    waits = (await read(form, asked["data"]["session_id"], one)).json()
    assert [(pause["tips"], pause["node"]) for pause in waits["pauses"]] == [("Which size?", "")]

    async def fail(*_: Any) -> None:
        raise DatabaseError(SECRET)

    monkeypatch.setattr(RunControl, "pauses", fail)
    failed = await read(agent, session, one)
    assert (failed.status_code, "4711" in failed.text) == (503, False)
