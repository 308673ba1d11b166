import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, RETRYING, AppServer, canvas, frames, start_app
from tests.server.waiting import wait_while

MISSING = "0" * 32
PATHS = ("/agents/chat/completions", "/agents/chat/completion", "/agents/{id}/completions")


def events(frames: list[Any]) -> list[str]:
    return [frame.get("event", "error") for frame in frames]


async def test_an_emoji_that_is_split_between_deltas_is_whole_again_in_the_joined_text(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=("\ud83d", "\ude00"), repeat=True)]
    agent_id = await server.agent(MODEL)
    received = await server.stream(agent_id, "hi")
    texts = [frame["data"]["content"] for frame in received if frame.get("event") == "message"]
    messages = [{"role": "user", "content": "hi"}]
    body = {"openai-compatible": True, "agent_id": agent_id, "messages": messages, "stream": True}
    streamed = await server.client.post("/agents/chat/completions", json=body)
    lines = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line)["choices"][0]["delta"]["content"] for line in lines]
    for joined in ("".join(texts), "".join(chunk or "" for chunk in chunks)):
        assert joined.encode("utf-16", "surrogatepass").decode("utf-16") == "\N{GRINNING FACE}"


async def test_a_turn_is_streamed_with_the_order_and_keys_of_ragflow(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"])]
    received = await server.stream(await server.agent(MODEL), "hi")
    assert events(received) == [
        "workflow_started",
        "node_started",
        "node_finished",
        "node_started",
        "node_started",
        "message",
        "message",
        "message_end",
        "node_finished",
        "node_finished",
        "workflow_finished",
    ]
    assert {tuple(frame) for frame in received} == {
        ("event", "message_id", "created_at", "task_id", "data", "session_id")
    }
    (envelope,) = {(f["message_id"], f["created_at"], f["task_id"], f["session_id"]) for f in received}
    assert envelope[2] == envelope[3]
    assert "".join(f["data"]["content"] for f in received if f["event"] == "message") == "Hello"


async def test_custom_headers_and_tasks(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    answer = await server.ask(agent_id, "hi", custom_header={"Authorization": "sesame"})
    assert answer["data"]["data"]["content"] == "You said hi"
    session_id = answer["data"]["session_id"]
    row = (await server.client.get(f"/agents/{agent_id}/sessions/{session_id}")).text
    place: Any = {"configurable": {"thread_id": thread_of_session(session_id), "checkpoint_ns": ""}}
    checkpoints = [checkpoint async for checkpoint in server.app_state.store.saver.alist(place)]
    assert checkpoints
    assert "sesame" not in f"{row}{checkpoints}"

    async def change(body: dict[str, Any], **options: Any) -> tuple[int, int, str]:
        answer = await server.client.patch(f"/tasks/{MISSING}", json=body, **options)
        return answer.status_code, answer.json()["code"], answer.json()["message"]

    assert await change({"action": "stop"}) == (200, 0, "success")
    assert await change({"action": "pause"}) == (200, 101, "Invalid action 'pause'. Only 'stop' is supported.")
    assert await change({}) == (200, 101, "required argument are missing: action; ")
    assert (await change({"action": "stop"}, headers={"Authorization": "Bearer forged"}))[:2] == (401, 401)


async def test_all_paths_and_names_of_the_query_are_accepted(server: AppServer) -> None:
    id_ = await server.agent(ECHO)
    for path, field in product(PATHS, ("query", "question")):
        body = {"agent_id": id_, field: "héllo \U0001f600"}
        answer = await server.post(path.format(id=id_), body)
        assert (answer["code"], answer["data"]["data"]["content"]) == (0, "You said héllo \U0001f600")
        assert len(answer["data"]["session_id"]) == 32
        received = frames((await server.client.post(path.format(id=id_), json={**body, "stream": True})).text)
        assert (set(events(received)) == {"message", "message_end"}) is path.endswith("}/completions")


async def test_a_session_of_a_client_receives_fewer_events(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    session = await server.session(agent_id)
    received = await server.stream(agent_id, session_id=session, return_trace=True)
    assert list(dict.fromkeys(events(received))) == ["node_finished", "message", "message_end", "workflow_finished"]
    assert list(received[-1]["data"]) == ["usage"]
    assert [len(f["data"]["trace"]) for f in received if f["event"] == "node_finished"] == [1, 2]
    whole = (await server.ask(agent_id, session_id=session, return_trace=True))["data"]
    assert (whole["event"], whole["session_id"], whole["data"]["content"]) == ("message_end", session, "You said hello")
    assert set(whole["data"]) == {"content", "reference", "trace", "usage"}
    assert (await server.ask(agent_id))["data"]["event"] == "workflow_finished"


AGAIN = (Reply(chunks=["par"], error="503"), Reply("whole"))


async def test_a_model_that_is_called_again_withdraws_what_it_has_sent(server: AppServer) -> None:
    server.model.replies += AGAIN * 4
    id_ = await server.agent(RETRYING)
    received = await server.stream(id_)
    sent = [(f["event"], f["data"]["content"]) for f in received if f["event"] in ("message", "message_reset")]
    assert sent == [
        ("message", "<"),
        ("message", "par"),
        ("message_reset", "<"),
        ("message", "whole"),
        ("message", ">"),
    ]
    assert "message_reset" in events(await server.stream(id_, session_id=await server.session(id_)))
    assert (await server.ask(id_))["data"]["data"]["content"] == "<whole>"
    oldest = await server.stream(id_, path=f"/agents/{id_}/completions")
    assert [f["data"].get("content") for f in oldest if f["event"] == "message"] == ["<", "par", "whole", ">"]
    assert "message_reset" not in events(oldest)


@pytest.mark.parametrize("source", ["agent", "workflow"])
async def test_a_form_pauses_and_its_answer_resumes(server: AppServer, source: str) -> None:
    agent_id = await server.agent(FORM)
    values = {"session_id": await server.session(agent_id)} if source == "agent" else {}
    question = await server.stream(agent_id, "go", **values)
    assert question[-1]["event"] == "user_inputs"
    assert question[-1]["data"] == {"inputs": question[-1]["data"]["inputs"], "tips": "Which size?"}
    assert list(question[-1]["data"]["inputs"]) == ["size"]
    session = {"session_id": question[-1]["session_id"]}
    again = await server.ask(agent_id, "", **session)
    assert (again["data"]["event"], again["data"]["data"]["tips"]) == ("user_inputs", "Which size?")
    assert (await server.ask(agent_id, "", inputs={"size": {"value": "big"}}, **session))["code"] == 101
    done = await server.stream(agent_id, "", inputs={"size": {"value": 42}}, **session)
    assert "workflow_started" not in events(done)
    assert "".join(f["data"]["content"] for f in done if f["event"] == "message") == "Size 42"
    row = (await server.get(f"/agents/{agent_id}/sessions/{session['session_id']}"))["data"]
    assert [m["content"] for m in row["message"][-2:]] == ["size: 42", "Size 42"]


async def test_refusals_before_the_run_are_sent_in_an_envelope(server: AppServer) -> None:
    agent_id, other = await server.agent(ECHO), await server.agent(ECHO, "Other")
    session = await server.session(other)
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({}, 101, "`agent_id` is required."),
        ({"agent_id": MISSING}, 103, "Make sure you have permission"),
        ({"agent_id": agent_id, "session_id": MISSING}, 102, "Session not found!"),
        ({"agent_id": agent_id, "session_id": session}, 103, "Session does not belong to the requested agent."),
        ({"agent_id": agent_id, "inputs": "x"}, 101, "`inputs`"),
        ({"agent_id": agent_id, "files": "x"}, 101, "`files`"),
        ({"agent_id": agent_id, "release": "true"}, 102, "no published version"),
        ({"agent_id": agent_id, "openai-compatible": True}, 102, "at least one message"),
    ]
    for body, code, message in cases:
        answer = await server.client.post("/agents/chat/completions", json={"stream": True, **body})
        assert (answer.status_code, answer.json()["code"]) == (200, code), body
        assert message in answer.json()["message"]


async def test_a_session_runs_one_turn_at_a_time_and_can_be_cancelled(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Let me"], hangs=True), Reply("Fine.")]
    agent_id = await server.agent(MODEL)
    session = await server.session(agent_id)
    first = asyncio.create_task(server.stream(agent_id, session_id=session))
    await wait_while(lambda: not server.model.is_hanging)
    assert (await server.ask(agent_id, session_id=session))["code"] == 103
    other = {"Authorization": await server.new_key("other")}
    for headers in (other, {}):
        assert not first.done()
        cancelled = await server.client.post(f"/tasks/{session}/cancel", headers=headers)
        assert cancelled.json() == {"code": 0, "message": "success", "data": True}
    assert events(await first)[-1] == "workflow_finished"
    assert (await server.post(f"/tasks/{MISSING}/cancel"))["data"] is True
    assert (await server.ask(agent_id, session_id=session))["data"]["data"]["content"] == "Fine."
    messages = (await server.get(f"/agents/{agent_id}/sessions/{session}"))["data"]["message"]
    assert [m["content"] for m in messages[1:]] == ["hello", "Let me", "hello", "Fine."]


async def test_the_next_turn_waits_for_the_lease_of_the_previous_one(tmp_path: Path) -> None:
    """The oldest SDK stops reading at the end of the message."""
    async with start_app(tmp_path, [Reply("One."), Reply("Two.")], busy_s=5) as server:
        agent_id = await server.agent(MODEL)
        session = await server.session(agent_id)
        async with hold_lease(server.app_state.store.leases, session):
            asking = asyncio.create_task(server.ask(agent_id, session_id=session))
            await asyncio.sleep(0.1)
            assert not asking.done()
        assert (await asking)["data"]["data"]["content"] == "One."
        body = {"agent_id": agent_id, "query": "x", "session_id": session, "stream": True}
        async with server.client.stream("POST", f"/agents/{agent_id}/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if '"message_end"' in line:
                    break
        assert (await server.ask(agent_id, session_id=session))["code"] == 0


OLD = {"X-RAGFlow-Compat": "0.24"}


async def test_a_component_that_fails_ends_the_turn_with_its_error(server: AppServer) -> None:
    server.model.replies += [Reply(error="no model")] * 9
    id_ = await server.agent(MODEL)
    received = await server.stream(id_)
    assert events(received)[-3:] == ["node_finished", "message", "message_end"]
    reason = received[-3]["data"]["error"]
    assert "no model" in reason
    assert received[-2]["data"]["content"] == f"**ERROR**: {reason}"
    session = await server.session(id_)
    again = await server.stream(id_, session_id=session)
    assert events(again)[-2:] == ["message", "message_end"]
    stored = (await server.get(f"/agents/{id_}/sessions/{session}"))["data"]
    assert (stored["message"][-1]["content"], stored["errors"]) == (f"**ERROR**: {reason}", reason)
    for path in PATHS:
        answer = await server.client.post(path.format(id=id_), json={"agent_id": id_, "query": "x"})
        assert (answer.json()["code"], "no model" in answer.json()["message"]) == (500, True), path
        assert len(answer.json()["data"]["session_id"]) == 32
    run = received[0]["message_id"]
    headers = {"Last-Event-ID": f"{run}:{len(received) - 2}", "X-RAGFlow-Event-Ids": "true"}
    body = {"agent_id": id_, "query": "hello", "stream": True}
    again = await server.client.post("/agents/chat/completions", json=body, headers=headers)
    assert events(frames(without_ids(again.text))) == ["message", "message_end"]


async def test_old_clients_receive_ragflows_frames_of_a_failure_or_its_text(server: AppServer) -> None:
    server.model.replies += [Reply(error="no model")] * 9
    id_ = await server.agent(MODEL)
    server.client.headers.update(OLD)
    assert events(await server.stream(id_))[-1] == "node_finished"
    answer = await server.ask(id_)
    assert (answer["code"], answer["data"]["event"], answer["data"]["data"]["content"]) == (0, "node_finished", "")
    path = f"/agents/{id_}/completions"
    oldest = await server.stream(id_, path=path)
    assert events(oldest) == ["message", "message_end"]
    assert "no model" in oldest[0]["data"]["content"]
    whole = await server.post(path, {"question": "x", "stream": False})
    assert (whole["code"], "no model" in whole["data"]["data"]["content"]) == (0, True)


def without_ids(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("id:"))


FIELDS: dict[str, Any] = {
    "doc": {"name": "Document", "type": "line", "optional": False},
    "n": {"name": "Pages", "type": "integer", "optional": False},
    "big": {"name": "Big", "type": "boolean", "optional": True},
}
TASK = canvas(
    ("begin", "Begin", {"mode": "task", "inputs": FIELDS}, ["Message:0"]),
    (
        "Message:0",
        "Message",
        {"content": ["{begin@doc} {% if {begin@big} %}big{% endif %} {{ {begin@n} + 1 }}"], "stream": False},
        [],
    ),
)


async def test_begins_fields_are_checked_before_a_turn(server: AppServer) -> None:
    id_ = await server.agent(TASK)
    for path in PATHS:
        for is_streamed in (False, True):
            body = {"agent_id": id_, "query": "go", "stream": is_streamed, "inputs": {"n": {"value": "x"}}}
            refused = await server.post(path.format(id=id_), body)
            expected = "'Document' (doc) is required. 'Pages' (n) should be a whole number, not 'x'."
            assert refused["code"] == 101, path
            assert refused["message"] == expected
            assert "data" not in refused
    assert (await server.get(f"/agents/{id_}/sessions"))["data"] == []
    inputs = {"doc": {"value": "D"}, "n": {"value": " 7 ", "type": "integer"}, "big": {"value": "false"}}
    assert (await server.ask(id_, "go", inputs=inputs))["data"]["data"]["content"] == "D  8"
    silent = await server.agent({**TASK, "compat": {"unchecked_forms": True}}, "Silent")
    assert (await server.ask(silent, "go"))["code"] == 0


async def test_fields_that_nothing_reads_are_named(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    id_ = await server.agent(TASK)
    body = {"agent_id": id_, "query": "go", "doc": "D", "inputs": {"doc": "D", "n": 1, "bigg": True, "ä": 1}}
    for path in PATHS:
        for is_streamed in (True, False):
            answer = await server.client.post(path.format(id=id_), json={**body, "stream": is_streamed})
            assert answer.headers["x-ignored-fields"] == "doc, inputs.bigg, inputs.%C3%A4"
            assert "D  2" in answer.text
    assert {record.name for record in caplog.records} == {"ragflow_lg.runs.graph_input"}
    made = await server.client.post(f"/agents/{id_}/sessions", json={"name": "Ada", "doc": "D"})
    assert (made.json()["code"], made.headers["x-ignored-fields"]) == (0, "doc")
    plain = await server.client.post("/agents/chat/completions", json={**body, "inputs": {"doc": "D", "n": 1}})
    assert plain.headers["x-ignored-fields"] == "doc"
    asked = await server.client.post(f"/agents/{id_}/sessions", json={"name": "Ada"})
    assert "x-ignored-fields" not in asked.headers
    asked = await server.client.post(
        "/agents/chat/completions", json={"agent_id": id_, "query": {"doc": "D", "n": 1, "big": "yes"}}
    )
    assert asked.json()["data"]["data"]["content"] == "D big 2"


async def test_every_client_receives_an_error_of_the_engine(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragflow_lg.base.errors import RunError
    from ragflow_lg.runs.wire.message_order import MessageOrder

    feed = MessageOrder.feed

    def fail(self: MessageOrder, event: Any) -> Any:
        if type(event).__name__ == "NodeFinished":
            raise RunError("It broke.")
        return feed(self, event)

    monkeypatch.setattr(MessageOrder, "feed", fail)
    id_ = await server.agent(ECHO)
    received = await server.stream(id_)
    assert received[-2]["data"]["content"] == "**ERROR**: It broke."
    assert received[-1] == {"code": 500, "message": "It broke.", "data": False}
    assert events(await server.stream(id_, path=f"/agents/{id_}/completions")) == ["message", "message_end"]
    answer = await server.ask(id_)
    assert (answer["code"], answer["message"], len(answer["data"]["session_id"])) == (500, "It broke.", 32)
    body = {"agent_id": id_, "query": "x"}
    old = await server.client.post("/agents/chat/completions", json=body, headers={"X-RAGFlow-Compat": "0.24"})
    assert old.json() == {"code": 0, "data": "**ERROR**: It broke."}


async def test_a_page_streams_its_answer_and_continues_its_session(server: AppServer) -> None:
    beta = await server.page()
    path = f"/agentbots/{await server.agent(ECHO)}/completions"
    received = frames((await server.client.post(path, json={"question": "Hi"}, headers=beta)).text)
    assert [received[0]["event"], received[-1]["event"]] == ["message", "workflow_finished"]
    body = {"query": "again", "session_id": received[0]["session_id"], "stream": False}
    answer = await server.post(path, body, headers=beta)
    assert (answer["data"]["event"], answer["data"]["data"]["content"]) == ("workflow_finished", "You said again")
    received = frames((await server.client.post(path, json={**body, "stream": True}, headers=beta)).text)
    assert received[0]["data"]["content"] == "You said "
    (row,) = (await server.get(f"/agents/{path.split('/')[2]}/sessions"))["data"]
    assert (row["source"], row["round"]) == ("agent", 3)
    released = await server.client.post(f"{path}?release=true", json={"query": "Hi"}, headers=beta)
    assert "no published version" in released.json()["message"]


async def test_beta_keys_open_pages_only(server: AppServer) -> None:
    beta = await server.page()
    agent_id = await server.agent(ECHO)
    for method, path in (
        ("GET", "/agents"),
        ("GET", f"/agents/{agent_id}"),
        ("DELETE", f"/agents/{agent_id}"),
        ("GET", f"/agents/{agent_id}/sessions"),
        ("POST", f"/agents/{agent_id}/completions"),
        ("POST", f"/agents/{agent_id}/reset"),
        ("GET", "/agents/templates"),
        ("GET", f"/agents/{agent_id}/logs/x"),
        ("POST", f"/agents/{agent_id}/components/begin/debug"),
        ("POST", f"/agents/{agent_id}/webhook/test"),
        ("GET", f"/agents/{agent_id}/webhook/logs"),
        ("GET", f"{server.url}/v1/models"),
    ):
        assert (await server.client.request(method, path, headers=beta)).status_code == 401, path
    no_key = {"code": 102, "message": "Authentication error: API key is invalid! ", "data": None}
    other = await server.new_key("other", kind="beta")
    for path, method in ((f"/agentbots/{agent_id}/completions", "POST"), (f"/agentbots/{agent_id}/inputs", "GET")):
        for header in (server.key, "Bearer beta-forged", f"Bearer {'x' * 300}"):
            answer = await server.client.request(method, path, headers={"Authorization": header})
            assert (answer.status_code, answer.json()) == (200, no_key)
        empty = await server.client.request(method, path, headers={"Authorization": ""})
        assert empty.json() == {"code": 102, "message": "Authorization is not valid!", "data": None}
        theirs = await server.client.request(method, path, headers={"Authorization": other})
        assert theirs.json() == {"code": 102, "message": f"Can't find agent by ID: {agent_id}"}
